// States and temporaries of one step on a matrix of 512 x 256 and a vector of 256, by hand from each
// optimizer's source.
#include "frameworks/pytorch/optimizers/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/block.h"
#include "program/ops.h"

namespace plimsoll::pytorch {
namespace {

constexpr int64_t kMatrix = 512 * 256, kVector = 256;

struct Step {
  int64_t states = 0;       // bytes of optimizer states, not rounded
  int64_t temporaries = 0;  // most bytes of the step's temporaries at once, each rounded up to 512
};

class Steps {
 public:
  explicit Steps(DType dtype) : dtype_(dtype), r_(program_, Recorder::Mode::kComplete) {
    a_.parameters = {{.name = "layers.0.weight", .shape = {512, 256}, .layer = 0},
                     {.name = "norm.weight", .shape = {256}}};
    for (const ParameterTensor& p : a_.parameters)
      tensors_.push_back(
          {.parameter = tensor(p, Category::kParameter), .gradient = tensor(p, Category::kGradient)});
  }
  ~Steps() { r_.finish(); }

  // The first step.
  Step take(OptimizerKind kind, OptimizerImplementation how = OptimizerImplementation::kForeach) {
    ResolvedJob job;
    job.optimizer = {.kind = kind, .implementation = how};
    auto optimizer = make_optimizer({.recorder = r_, .architecture = a_, .job = job});
    r_.category = Category::kTemporary;
    r_.is_grad_enabled = false;
    (*optimizer)->step(tensors_);
    return measured();
  }

 private:
  Value tensor(const ParameterTensor& p, Category category) {
    return r_.persistent(Layout::contiguous(p.shape), dtype_, category, program_.module(p.name));
  }

  Step measured() const {
    Step step;
    int64_t live = 0;
    for (const Statement& s : program_.statements) {
      if (s.kind == StatementKind::kFree) live -= rounded(StorageId{s.index});
      if (s.kind != StatementKind::kOp) continue;
      const Op& op = program_.op(OpId{s.index});
      const OpClass op_class = class_of(op.kind);
      if (op_class == OpClass::kView || op_class == OpClass::kInPlace) continue;
      for (TensorId t : program_.outputs(op)) {
        const Storage& storage = program_.storage_of(t);
        if (storage.category == Category::kOptimizerState) {
          step.states += storage.bytes.value;
        } else {
          live += rounded(program_.tensor(t).storage);
        }
      }
      step.temporaries = std::max(step.temporaries, live);
    }
    return step;
  }
  int64_t rounded(StorageId id) const {
    const Storage& storage = program_.storage(id);
    return storage.category == Category::kOptimizerState ? 0 : round_to_block(storage.bytes).value;
  }

  DType dtype_;
  Architecture a_;
  Program program_;
  Recorder r_;
  std::vector<TrainedTensor> tensors_;
};

Step first_step(DType dtype, OptimizerKind kind,
                OptimizerImplementation how = OptimizerImplementation::kForeach) {
  Steps steps(dtype);
  return steps.take(kind, how);
}

TEST(Optimizers, AdamW) {
  const int64_t moments = 2 * 2 * (kMatrix + kVector);
  const Step foreach = first_step(DType::kBFloat16, OptimizerKind::kAdamW);
  EXPECT_EQ(foreach.states, moments);
  EXPECT_EQ(foreach.temporaries, 2 * (kMatrix + kVector));  // the roots of all second moments

  const Step fused = first_step(DType::kBFloat16, OptimizerKind::kAdamW, OptimizerImplementation::kFused);
  EXPECT_EQ(fused.states, moments + 2 * 4);  // and a count of steps each
  EXPECT_EQ(fused.temporaries, 0);

  const Step loop = first_step(DType::kBFloat16, OptimizerKind::kAdamW, OptimizerImplementation::kForLoop);
  EXPECT_EQ(loop.states, moments);
  EXPECT_EQ(loop.temporaries, 2 * 2 * kMatrix);  // root and denominator of the matrix
}

// state1 and state2 of one byte, absmax of one fp32 a block of 256, two maps of 256 fp32; below 4096 elements
// two fp32 moments.
TEST(Optimizers, Adam8bit) {
  const Step step = first_step(DType::kBFloat16, OptimizerKind::kAdam8bit);
  EXPECT_EQ(step.states, 2 * (kMatrix + kMatrix / 256 * 4 + 256 * 4) + 2 * 4 * kVector);
  EXPECT_EQ(step.temporaries, 0);
}

TEST(Optimizers, LionsMomentumHasTheParametersDtype) {
  EXPECT_EQ(first_step(DType::kBFloat16, OptimizerKind::kLion).states, 2 * (kMatrix + kVector));
  const Step step = first_step(DType::kFloat32, OptimizerKind::kLion);
  EXPECT_EQ(step.states, 4 * (kMatrix + kVector));
  EXPECT_EQ(step.temporaries, 3 * 4 * kMatrix);  // both products and their sum
}

// Momentum of the matrix only; the vector is AdamW's. In fp32: the update, its bf16 copy, the Gram matrix of
// the 256 x 512 orientation twice, and the next iterate.
TEST(Optimizers, Muon) {
  const Step step = first_step(DType::kFloat32, OptimizerKind::kMuon);
  EXPECT_EQ(step.states, 4 * kMatrix + 2 * 4 * kVector);
  EXPECT_EQ(step.temporaries, 4 * kMatrix + 2 * 2 * kMatrix + 2 * 2 * 256 * 256);
}

// Row and column means of the matrix and the vector's squares in fp32, and a scalar each; fp32 copies of
// gradient and parameter, two of the update's stages.
TEST(Optimizers, Adafactor) {
  const Step step = first_step(DType::kBFloat16, OptimizerKind::kAdafactor);
  EXPECT_EQ(step.states, 4 * (512 + 256) + 4 * kVector + 2 * 4);
  EXPECT_GE(step.temporaries, 4 * 4 * kMatrix);
  EXPECT_LT(step.temporaries, 4 * 4 * kMatrix + 8 * 1024);
}

TEST(Optimizers, WhatIsNotKnownOnShardsIsRefused) {
  ResolvedJob job;
  job.engine = DataParallelEngine::kFsdp2;
  job.optimizer.kind = OptimizerKind::kAdam8bit;
  const Result<void> refused = check_optimizer(job);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().to_text(), ::testing::HasSubstr("optimizer.name = adam8bit"));
  EXPECT_EQ(
      refused.error().expected,
      "one of adamw, adamw-fused, adamw-loop, sgd, sgd-loop, sgd-momentum, sgd-momentum-loop, lion, none");
  job.optimizer.kind = OptimizerKind::kLion;
  EXPECT_TRUE(check_optimizer(job));
}

}  // namespace
}  // namespace plimsoll::pytorch
