// For tests: a small model of any family, and what its forward is written as.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "frameworks/pytorch/forward.h"
#include "model/build_architecture.h"

namespace plimsoll::pytorch {

inline ConfigMember member(std::string key, int64_t value) {
  return {.key = std::move(key), .value = {value}};
}

inline Architecture small(const std::string& family, std::vector<ConfigMember> more = {}) {
  ConfigValue::Object config = {{.key = "model_type", .value = {family}},
                                member("vocab_size", 64),
                                member("hidden_size", 32),
                                member("intermediate_size", 48),
                                member("num_hidden_layers", 2),
                                member("num_attention_heads", 4),
                                member("num_key_value_heads", 2),
                                member("max_position_embeddings", 4096)};
  for (ConfigMember& m : more) {
    const auto same = std::ranges::find(config, m.key, &ConfigMember::key);
    if (same == config.end())
      config.push_back(std::move(m));
    else
      same->value = std::move(m.value);
  }
  Result<Architecture> architecture = build_architecture(config, {.file = "small"});
  EXPECT_TRUE(architecture) << architecture.error().to_text();
  return std::move(*architecture);
}

inline ResolvedJob job_of(int64_t sequence, int64_t micro_batch = 1) {
  return {.precision = Precision::kBFloat16, .batch = {.sequence = sequence, .micro_batch = micro_batch}};
}

inline ForwardProgram forward_of(const Architecture& architecture, const ResolvedJob& job) {
  Result<ForwardProgram> forward =
      record_forward(architecture, job, std::vector<bool>(architecture.parameters.size(), true), {});
  EXPECT_TRUE(forward) << forward.error().to_text();
  return std::move(*forward);
}

inline std::vector<const Op*> ops_of(const Program& program, OpKind kind, std::string_view module_part = "") {
  std::vector<const Op*> found;
  for (const Op& op : program.ops)
    if (op.kind == kind && program.module_name(op.module).find(module_part) != std::string::npos)
      found.push_back(&op);
  return found;
}

}  // namespace plimsoll::pytorch
