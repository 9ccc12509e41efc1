#include "program/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program/op_table.h"
#include "program/text.h"

namespace plimsoll {
namespace {

tl::unexpected<Error> broken(std::string message) {
  return fail({.message = "program: " + std::move(message), .is_internal = true});
}

// ---- tables ----

bool is_range(const Program& p, uint32_t first, uint32_t count) {
  return first <= p.operands.size() && count <= p.operands.size() - first;
}

bool are_tensors(const Program& p, const std::vector<TensorId>& tensors) {
  return std::ranges::all_of(tensors, [&](TensorId t) { return t.value < p.tensors.size(); });
}

Result<void> check_ops(const Program& p) {
  for (size_t i = 0; i < p.ops.size(); ++i) {
    const Op& op = p.ops[i];
    if (!is_range(p, op.first_input, op.input_count) || !is_range(p, op.first_output, op.output_count) ||
        op.module.value >= p.modules.size() || op.attributes >= p.attributes.size())
      return broken(fmt::format("op {} ({}) has an index out of range", i, name_of(op.kind)));
    const auto* collective = std::get_if<CollectiveAttr>(&p.attributes_of(op));
    if (collective && collective->group >= p.groups.size())
      return broken(fmt::format("op {} ({}) names group {} of {}", i, name_of(op.kind), collective->group,
                                p.groups.size()));
  }
  return {};
}

Result<void> check_regions(const Program& p) {
  for (size_t i = 0; i < p.regions.size(); ++i) {
    const Region& r = p.regions[i];
    if (r.module.value >= p.modules.size() || !are_tensors(p, r.arguments) || !are_tensors(p, r.keywords) ||
        !are_tensors(p, r.results))
      return broken(fmt::format("region r{} has an index out of range", i));
  }
  return {};
}

// Every op stands in one statement, in the order of the ops.
Result<void> check_statements(const Program& p) {
  size_t ops = 0;
  for (size_t i = 0; i < p.statements.size(); ++i) {
    const Statement& s = p.statements[i];
    const size_t count = s.kind == StatementKind::kOp     ? p.ops.size()
                         : s.kind == StatementKind::kDrop ? p.tensors.size()
                         : s.kind == StatementKind::kFree ? p.storages.size()
                                                          : p.regions.size();
    if (s.index >= count) return broken(fmt::format("statement {} has an index out of range", i));
    if (s.kind != StatementKind::kOp) continue;
    if (s.index != ops)
      return broken(fmt::format("statement {} is op {}, expected op {}: ops are numbered as they run", i,
                                s.index, ops));
    ++ops;
  }
  if (ops != p.ops.size()) return broken(fmt::format("op {} stands in no statement", ops));
  return {};
}

// Bytes from the first to behind the last element; a tensor's offset in its storage isn't known here.
Bytes extent(const TensorInfo& t) {
  if (t.layout.elements() == 0) return Bytes{};
  Bytes last;
  for (size_t i = 0; i < t.layout.shape().size(); ++i)
    last += Bytes{t.layout.strides[i]} * (t.layout.sizes[i] - 1);
  return (last + Bytes{1}) * bytes_of(t.dtype);
}

// A gathered parameter may be a Float8Tensor: of the dtype that it stands for, with a byte an element.
Bytes least_extent(const TensorInfo& t, const Storage& storage) {
  const Bytes whole = extent(t);
  return storage.category == Category::kUnshardedParameter ? Bytes{divide_up(whole.value, bytes_of(t.dtype))}
                                                           : whole;
}

Result<void> check_tensors(const Program& p) {
  for (size_t i = 0; i < p.storages.size(); ++i)
    if (p.storages[i].owner.value >= p.modules.size() || p.storages[i].bytes < Bytes{})
      return broken(fmt::format("storage s{} has no owner or no size", i));
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const TensorInfo& t = p.tensors[i];
    if (t.storage.value >= p.storages.size())
      return broken(fmt::format("tensor %{} has an index out of range", i));
    if (least_extent(t, p.storage(t.storage)) > p.storage(t.storage).bytes)
      return broken(fmt::format("tensor %{} ({} bytes) doesn't fit into storage s{} ({} bytes)", i,
                                extent(t).value, t.storage.value, p.storage(t.storage).bytes.value));
  }
  return {};
}

Result<void> check_tables(const Program& p) {
  PLIMSOLL_CHECK(check_tensors(p));
  if (!are_tensors(p, p.parameters) || !are_tensors(p, p.operands))
    return broken("a tensor that doesn't exist is a parameter or an operand");
  PLIMSOLL_CHECK(check_ops(p));
  PLIMSOLL_CHECK(check_regions(p));
  PLIMSOLL_CHECK(check_statements(p));
  for (const Section& s : p.sections)
    if (s.first_statement > s.last_statement || s.last_statement > p.statements.size())
      return broken(fmt::format("section \"{}\" has an index out of range", s.name));
  for (const PhaseStep& step : p.schedule)
    if (step.section >= p.sections.size())
      return broken(
          fmt::format("phase \"{}\" plays section {} of {}", step.phase, step.section, p.sections.size()));
  return {};
}

tl::unexpected<Error> broken_at(const Program& p, size_t statement, std::string_view problem) {
  return broken(fmt::format("statement {}: {}: {}", statement, to_text(p, p.statements[statement]), problem));
}

bool shares_storage(const Program& p, const Op& op) {
  if (!shares_input_storage(op.kind) || op.input_count == 0) return true;
  const StorageId storage = p.tensor(p.inputs(op)[0]).storage;
  return std::ranges::all_of(p.outputs(op), [&](TensorId t) { return p.tensor(t).storage == storage; });
}

// ---- forward ----

class ForwardCheck {
 public:
  explicit ForwardCheck(const Program& program)
      : p_(program), state_(program.tensors.size(), State::kPersistent), calls_(program.regions.size()) {
    for (const Op& op : p_.ops)
      for (TensorId t : p_.outputs(op)) state_[t.value] = State::kUnmade;
  }

  Result<void> run() {
    for (size_t i = 0; i < p_.statements.size(); ++i)
      if (const std::string problem = check(p_.statements[i]); !problem.empty())
        return broken_at(p_, i, problem);
    if (!open_.empty()) return broken(fmt::format("region r{} has no end", open_.back()));
    return {};
  }

 private:
  enum class State : uint8_t { kPersistent, kUnmade, kLive, kDropped };

  std::string check(const Statement& s) {
    switch (s.kind) {
      case StatementKind::kOp:
        return check_op(p_.ops[s.index]);
      case StatementKind::kDrop:
        return check_drop(s.index);
      case StatementKind::kBegin:
        return check_begin(s.index);
      case StatementKind::kEnd:
        return check_end(s.index);
      case StatementKind::kFree:
        return "a free in a forward program";
    }
    return {};
  }

  std::string problem_of_reading(std::span<const TensorId> tensors) const {
    for (TensorId t : tensors) {
      if (state_[t.value] == State::kUnmade) return fmt::format("%{} isn't made yet", t.value);
      if (state_[t.value] == State::kDropped) return fmt::format("%{} was dropped", t.value);
    }
    return {};
  }

  std::string check_op(const Op& op) {
    if (std::string problem = problem_of_reading(p_.inputs(op)); !problem.empty()) return problem;
    if (!shares_storage(p_, op)) return "a result doesn't share its input's storage";
    for (TensorId t : p_.outputs(op)) {
      if (state_[t.value] != State::kUnmade) return fmt::format("%{} is made a second time", t.value);
      state_[t.value] = State::kLive;
    }
    return {};
  }

  std::string check_drop(uint32_t tensor) {
    if (std::string problem = problem_of_reading(std::vector{TensorId{tensor}}); !problem.empty())
      return problem;
    state_[tensor] = State::kDropped;
    return {};
  }

  std::string check_begin(uint32_t region) {
    if (calls_[region]++ > 0) return "the region begins a second time";
    open_.push_back(region);
    if (std::string problem = problem_of_reading(p_.regions[region].arguments); !problem.empty())
      return problem;
    return problem_of_reading(p_.regions[region].keywords);
  }

  std::string check_end(uint32_t region) {
    if (open_.empty() || open_.back() != region) return "regions don't nest";
    open_.pop_back();
    return problem_of_reading(p_.regions[region].results);
  }

  const Program& p_;
  std::vector<State> state_;
  std::vector<int> calls_;
  std::vector<uint32_t> open_;
};

// ---- complete ----

bool persists(Category category, const VerifyOptions& options) {
  switch (category) {
    case Category::kParameter:
    case Category::kMasterParameter:
    case Category::kUnshardedParameter:  // of a unit that isn't resharded after a forward
    case Category::kBuffer:
    case Category::kInput:
    case Category::kOptimizerState:
    case Category::kCommunicationBucket:
      return true;
    case Category::kGradient:
      return options.may_keep_gradients;
    case Category::kActivation:
    case Category::kLogits:
      return options.may_keep_outputs;
    default:
      return false;
  }
}

class CompleteCheck {
 public:
  CompleteCheck(const Program& program, const VerifyOptions& options)
      : p_(program), options_(options), is_live_(program.storages.size()) {}

  Result<void> run() {
    PLIMSOLL_CHECK(check_sections());
    for (const PhaseStep& step : p_.schedule) {
      const Section& section = p_.sections[step.section];
      for (uint32_t i = section.first_statement; i < section.last_statement; ++i)
        if (const std::string problem = check(p_.statements[i]); !problem.empty())
          return broken_at(p_, i, fmt::format("in phase \"{}\", {}", step.phase, problem));
    }
    return check_rest();
  }

 private:
  Result<void> check_sections() const {
    std::vector<bool> is_covered(p_.statements.size());
    for (const Section& s : p_.sections)
      std::fill(is_covered.begin() + s.first_statement, is_covered.begin() + s.last_statement, true);
    const auto outside = std::ranges::find(is_covered, false);
    if (outside == is_covered.end()) return {};
    return broken_at(p_, static_cast<size_t>(outside - is_covered.begin()), "it belongs to no section");
  }

  std::string check(const Statement& s) {
    if (s.kind == StatementKind::kOp) return check_op(p_.ops[s.index]);
    if (s.kind != StatementKind::kFree) return "a statement of a forward program";
    if (!is_live_[s.index]) return "the storage isn't live";
    is_live_[s.index] = false;
    return {};
  }

  std::string check_op(const Op& op) {
    for (TensorId t : p_.inputs(op)) {
      if (p_.storage_of(t).tier == Tier::kDisk && op.kind != OpKind::kReadFromDisk &&
          op.kind != OpKind::kWriteToDisk)
        return fmt::format("it computes with %{}, which is on disk", t.value);
      if (!is_live_[p_.tensor(t).storage.value])
        return fmt::format("it reads %{}, whose storage s{} isn't live", t.value, p_.tensor(t).storage.value);
    }
    if (!shares_storage(p_, op)) return "a result doesn't share its input's storage";
    if (shares_input_storage(op.kind)) return {};
    for (TensorId t : p_.outputs(op)) {
      const uint32_t storage = p_.tensor(t).storage.value;
      if (is_live_[storage]) return fmt::format("storage s{} is live already", storage);
      is_live_[storage] = true;
    }
    return {};
  }

  Result<void> check_rest() const {
    for (size_t s = 0; s < is_live_.size(); ++s) {
      const Category category = p_.storages[s].category;
      if (!is_live_[s] || persists(category, options_)) continue;
      return broken(fmt::format("storage s{} ({}, {} bytes, of {}) is left at the end", s, name_of(category),
                                p_.storages[s].bytes.value, p_.module_name(p_.storages[s].owner)));
    }
    return {};
  }

  const Program& p_;
  const VerifyOptions& options_;
  std::vector<bool> is_live_;
};

}  // namespace

Result<void> verify(const Program& program, const VerifyOptions& options) {
  PLIMSOLL_CHECK(check_tables(program));
  if (!program.is_complete) return ForwardCheck(program).run();
  return CompleteCheck(program, options).run();
}

}  // namespace plimsoll
