#include "replay/stack_roles.h"

#include <gtest/gtest.h>

namespace plimsoll {
namespace {

const StackFrame kUnwind{.name = "torch::unwind::unwind()"};
const StackFrame kGather{.name = "torch::CapturedTraceback::gather(bool, bool, bool)"};
const StackFrame kMalloc{
    .name = "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc(unsigned long)"};
const StackFrame kEmpty{.name = "at::detail::empty_strided_cuda(c10::ArrayRef<long>)"};
const StackFrame kGeneric{.name = "at::TensorBase at::detail::_empty_generic<long>(c10::ArrayRef<long>)"};
const StackFrame kEmptyStrided{.name = "at::native::empty_strided_cuda(c10::ArrayRef<long>)"};
const StackFrame kEngine{.name = "torch::autograd::Engine::thread_main(x)"};

struct Shown {
  StackMeaning meaning;
  std::string frame;
};
Shown shown(std::vector<StackFrame> frames) {
  frames.insert(frames.begin(), {kUnwind, kGather, kMalloc, kGeneric, kEmpty});
  StackTable stacks;
  std::vector<FrameId> ids;
  for (const StackFrame& frame : frames) ids.push_back(stacks.add_frame(frame));
  const StackId id = stacks.add(ids);
  const StackMeaning meaning = meanings_of(stacks)[id];
  return {.meaning = meaning,
          .frame = meaning.shown_frame ? frame_text(stacks.frame(*meaning.shown_frame)) : std::string()};
}

TEST(StackRoles, HowMemoryIsAllocatedIsNeverWhoAskedForIt) {
  EXPECT_EQ(shown({kEmptyStrided, {.name = "torch::autograd::AccumulateGrad::apply(x)"}, kEngine}).frame,
            "torch::autograd::AccumulateGrad::apply");
  EXPECT_EQ(shown({kEmptyStrided, {.name = "at::native::(anonymous namespace)::sum_out(at::Tensor&)"}}).frame,
            "at::native::(anonymous namespace)::sum_out");
  EXPECT_EQ(shown({{.name = "main"}}).frame, "main");
  EXPECT_EQ(shown({}).frame, "");
}

// The handle's first use makes it, in whatever runs then: a forward or a backward.
TEST(StackRoles, WorkspacesOfLibrariesAreNoneOfTheirCallers) {
  const StackFrame forward{.name = "forward", .filename = "/home/me/model.py", .line = 5};
  for (const char* function :
       {"at::cuda::getNewWorkspace()", "at::cuda::getCurrentCUDABlasHandle()",
        "at::cuda::(anonymous namespace)::getNewCUDABlasLtWorkspace()", "at::cuda::getCUDABlasLtWorkspace()"})
    for (const StackFrame& caller : {forward, kEngine}) {
      const Shown found = shown({{.name = function}, caller});
      EXPECT_EQ(found.meaning.role, BlockRole::kWorkspace) << function;
    }
  EXPECT_EQ(shown({{.name = "at::cuda::blas::gemm<float>(char)"}, forward}).meaning.role,
            BlockRole::kActivation);
}

}  // namespace
}  // namespace plimsoll
