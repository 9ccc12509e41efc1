// For tests: a forward program (often a text) in, its complete program out: load, forward, backward.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "program/autograd.h"
#include "program/ops.h"
#include "program/text.h"
#include "program/verify.h"

namespace plimsoll {

struct Differentiated {
  Program program;                           // sections "load", "forward", "backward"; gradients stay
  std::map<uint32_t, TensorInfo> gradients;  // by forward tensor: of those that no op makes and that want one
};

class GradientKeeper : public GradientSink {
 public:
  explicit GradientKeeper(Recorder& recorder) : r_(recorder) {}
  void accumulate(TensorId parameter, Value gradient) override {
    accumulate_gradient(r_, parameter, std::move(gradient), kept[parameter.value], Category::kGradient);
  }
  std::map<uint32_t, Value> kept;  // by tensor of the complete program

 private:
  Recorder& r_;
};

// The root is the first result of the last op.
inline Differentiated differentiate(const Program& forward, AutogradOptions options = {},
                                    UnitHooks* hooks = nullptr) {
  Differentiated result;
  Program& program = result.program;
  program.is_complete = true;
  Recorder r(program, Recorder::Mode::kComplete);
  GradientKeeper keeper(r);
  std::map<uint32_t, Value> leaves;  // by forward tensor
  const auto section = [&](std::string name, auto write) {
    const auto first = static_cast<uint32_t>(program.statements.size());
    write();
    program.schedule.push_back({name, static_cast<uint32_t>(program.sections.size())});
    program.sections.push_back({name, first, static_cast<uint32_t>(program.statements.size())});
  };
  section("load", [&] {
    std::vector<bool> is_made(forward.tensors.size());
    for (const Op& op : forward.ops)
      for (TensorId t : forward.outputs(op)) is_made[t.value] = true;
    for (uint32_t t = 0; t < forward.tensors.size(); ++t) {
      if (is_made[t]) continue;
      const TensorInfo& info = forward.tensors[t];
      const With<Category> category(r.category, forward.storage_of(TensorId{t}).category);
      leaves[t] = ops::empty(r, info.layout, info.dtype);
      program.tensors[leaves[t].id().value].requires_grad = info.requires_grad;
    }
  });
  {
    Autograd autograd(r, forward, keeper, hooks, options);
    Value root;
    section("forward", [&] {
      for (const auto& [tensor, value] : leaves) autograd.bind(TensorId{tensor}, value);
      root = autograd.forward(forward.outputs(forward.ops.back())[0]);
      autograd.release_locals();
    });
    Result<void> done;
    section("backward", [&] { done = autograd.backward(std::move(root)); });
    EXPECT_TRUE(done) << done.error().message;
  }
  for (const auto& [tensor, value] : leaves)
    if (const auto kept = keeper.kept.find(value.id().value); kept != keeper.kept.end())
      result.gradients[tensor] = kept->second.info();
  r.finish();
  const Result<void> holds = verify(program, {.may_keep_outputs = true, .may_keep_gradients = true});
  EXPECT_TRUE(holds) << holds.error().to_text();
  return result;
}

inline Differentiated differentiate_text(std::string_view text, AutogradOptions options = {}) {
  const Result<Program> forward = parse_program(text, "fixture");
  if (!forward) throw std::invalid_argument(forward.error().to_text());
  const Result<void> holds = verify(*forward);
  EXPECT_TRUE(holds) << holds.error().to_text();
  return differentiate(*forward, options);
}

inline const Section& section_named(const Program& program, std::string_view name) {
  for (const Section& s : program.sections)
    if (s.name == name) return s;
  throw std::invalid_argument("no such section");
}

// The statements of a section as text, one a line.
inline std::string statements_of(const Program& program, std::string_view section) {
  const Section& s = section_named(program, section);
  std::string text;
  for (uint32_t i = s.first_statement; i < s.last_statement; ++i)
    text += to_text(program, program.statements[i]) + "\n";
  return text;
}

// The ops of a section by name, views left out; what is computed again has a star: "OnesLike Mm* Mm Mm".
inline std::string ops_of(const Program& program, std::string_view section) {
  const Section& s = section_named(program, section);
  std::string text;
  for (uint32_t i = s.first_statement; i < s.last_statement; ++i) {
    if (program.statements[i].kind != StatementKind::kOp) continue;
    const Op& op = program.ops[program.statements[i].index];
    if (class_of(op.kind) == OpClass::kView) continue;
    text += (text.empty() ? "" : " ") + std::string(name_of(op.kind)) + (op.is_recomputed ? "*" : "");
  }
  return text;
}

// What is alive between forward and backward, parameters and the root's own result apart: what autograd keeps
// of a layer and of its input.
inline Bytes kept_between(const Program& program) {
  const uint32_t end = section_named(program, "forward").last_statement;
  std::vector<bool> is_live(program.storages.size());
  StorageId root;
  for (uint32_t i = 0; i < end; ++i) {
    const Statement& s = program.statements[i];
    if (s.kind == StatementKind::kFree) is_live[s.index] = false;
    if (s.kind != StatementKind::kOp) continue;
    for (TensorId t : program.outputs(program.ops[s.index])) {
      root = program.tensor(t).storage;
      is_live[root.value] = true;
    }
  }
  Bytes kept;
  for (uint32_t s = 0; s < is_live.size(); ++s)
    if (is_live[s] && s != root.value && program.storages[s].category != Category::kParameter)
      kept += program.storages[s].bytes;
  return kept;
}

}  // namespace plimsoll
