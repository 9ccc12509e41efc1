// Laws of the text form: what is written reads back as the same program, whatever is in its tables.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "program/text.h"

namespace plimsoll {
namespace {

template <typename Enum>
Enum any_of(int count) {
  return static_cast<Enum>(*rc::gen::inRange(0, count));
}
bool any_bool() { return *rc::gen::arbitrary<bool>(); }
OpKind any_kind() {
  return *rc::gen::elementOf(std::vector<OpKind>(all_op_kinds().begin(), all_op_kinds().end()));
}
std::string any_text() { return *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127)); }
double any_number() { return std::ldexp(*rc::gen::inRange(-1000000, 1000000), *rc::gen::inRange(-60, 60)); }

ModuleId any_module(Program& p) {
  if (any_bool()) return p.module("model.layers." + std::to_string(*rc::gen::inRange(0, 3)));
  return p.module(any_text());
}

Layout any_layout() {
  const auto sizes =
      *rc::gen::resize(kMaxRank, rc::gen::container<std::vector<int64_t>>(rc::gen::inRange<int64_t>(0, 9)));
  Layout layout = Layout::contiguous({sizes.data(), std::min<size_t>(sizes.size(), kMaxRank)});
  if (layout.rank > 1 && any_bool()) layout = layout.transposed(0, 1);
  return layout;
}

Attributes any_attributes() {
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return DimAttr{.mask = *rc::gen::arbitrary<uint32_t>(), .keep_dims = any_bool()};
    case 1:
      return DimsAttr{{any_of<int8_t>(6), any_of<int8_t>(6), any_of<int8_t>(6), 0, any_of<int8_t>(6), 0}};
    case 2:
      return SliceAttr{.dim = any_of<int>(6), .start = any_of<int>(100), .step = any_of<int>(9)};
    case 3:
      return ScalarAttr{any_number()};
    case 4:
      return AttentionAttr{.is_causal = any_bool(), .dropout = any_number()};
    case 5:
      return CollectiveAttr{.group = any_of<uint32_t>(5)};
    case 6:
      return FusedAttr{.has_norm_bias = any_bool(),
                       .has_bias = any_bool(),
                       .sums_input_gradient = any_bool(),
                       .adds_weight_gradient = any_bool(),
                       .multiprocessors = any_of<int64_t>(200),
                       .input_ranks = 1 + any_of<int64_t>(8),
                       .result_ranks = 1 + any_of<int64_t>(8)};
    default:
      return {};
  }
}

TensorId any_tensor(const Program& p) {
  return TensorId{*rc::gen::inRange<uint32_t>(0, static_cast<uint32_t>(p.tensors.size()))};
}
std::vector<TensorId> any_tensors(const Program& p) {
  std::vector<TensorId> tensors(static_cast<size_t>(*rc::gen::inRange(0, 4)));
  for (TensorId& t : tensors) t = any_tensor(p);
  return tensors;
}

TensorId add_tensor(Program& p) {
  TensorInfo info{
      .dtype = any_of<DType>(10), .requires_grad = any_bool(), .is_view = any_bool(), .layout = any_layout()};
  const auto count = static_cast<uint32_t>(p.storages.size());
  info.storage = StorageId{any_bool() && count > 0 ? *rc::gen::inRange<uint32_t>(0, count) : count};
  if (info.storage.value == count) {
    const Bytes natural = Bytes{info.layout.elements()} * bytes_of(info.dtype);
    p.storages.push_back({.bytes = any_bool() ? natural : Bytes{any_of<int>(1 << 20)},
                          .category = any_of<Category>(kCategoryCount),
                          .tier = any_of<Tier>(4),
                          .owner = any_module(p)});
  }
  p.tensors.push_back(info);
  return TensorId{static_cast<uint32_t>(p.tensors.size() - 1)};
}

void add_op(Program& p) {
  Op op{
      .kind = any_kind(), .stream = any_of<Stream>(6), .is_recomputed = any_bool(), .module = any_module(p)};
  if (any_bool()) op.backward_of = any_kind();
  if (any_bool()) op.workspace = Bytes{any_of<int>(1 << 20)};
  op.attributes = p.add_attributes(any_attributes());
  const std::vector<TensorId> inputs = any_tensors(p);
  op.first_input = static_cast<uint32_t>(p.operands.size());
  op.input_count = static_cast<uint32_t>(inputs.size());
  p.operands.insert(p.operands.end(), inputs.begin(), inputs.end());
  op.first_output = static_cast<uint32_t>(p.operands.size());
  op.output_count = static_cast<uint32_t>(*rc::gen::inRange(0, 3));
  const uint32_t older = any_tensor(p).value;
  for (uint32_t k = 0; k < op.output_count; ++k)
    p.operands.push_back(k == 0 && any_bool() ? TensorId{older} : add_tensor(p));
  p.statements.push_back({.kind = StatementKind::kOp, .index = static_cast<uint32_t>(p.ops.size())});
  p.ops.push_back(op);
}

void add_region(Program& p) {
  Region region{.kind = any_of<RegionKind>(5), .module = any_module(p)};
  region.arguments = any_tensors(p);
  region.keywords = any_tensors(p);
  region.results = any_tensors(p);
  region.checkpoint = any_of<Checkpoint>(4);
  region.keeps_only_needed = any_bool();
  region.is_recomputed_whole = any_bool();
  region.is_unit = any_bool();
  for (int i = *rc::gen::inRange(0, 3); i > 0; --i) region.kept.push_back(any_kind());
  for (int i = *rc::gen::inRange(0, 2); i > 0; --i) region.alternately_kept.push_back(any_kind());
  p.regions.push_back(region);
}

void add_statement(Program& p) {
  const auto index = [](size_t count) {
    return *rc::gen::inRange<uint32_t>(0, static_cast<uint32_t>(count));
  };
  switch (*rc::gen::inRange(0, 8)) {
    case 0:
      return p.statements.push_back({.kind = StatementKind::kDrop, .index = index(p.tensors.size())});
    case 1:
      return p.statements.push_back(
          {.kind = StatementKind::kFree, .holder = any_of<Holder>(6), .index = index(p.storages.size())});
    case 2:
      return p.statements.push_back({.kind = StatementKind::kBegin, .index = index(p.regions.size())});
    case 3:
      return p.statements.push_back({.kind = StatementKind::kEnd, .index = index(p.regions.size())});
    default:
      return add_op(p);
  }
}

Program any_program() {
  Program p;
  p.is_complete = any_bool();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) add_tensor(p);
  for (int i = *rc::gen::inRange(1, 3); i > 0; --i) add_region(p);
  for (int i = *rc::gen::inRange(0, 20); i > 0; --i) add_statement(p);
  p.parameters = any_tensors(p);
  p.groups = {any_text(), any_text()};
  p.notes = {any_text()};
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    const auto end = *rc::gen::inRange<uint32_t>(0, static_cast<uint32_t>(p.statements.size()) + 1);
    const auto begin = *rc::gen::inRange<uint32_t>(0, end + 1);
    p.sections.push_back({.name = any_text(), .first_statement = begin, .last_statement = end});
    p.schedule.push_back(
        {any_text(), *rc::gen::inRange<uint32_t>(0, static_cast<uint32_t>(p.sections.size()))});
  }
  return p;
}

void check_same_tables(const Program& a, const Program& b) {
  RC_ASSERT(a.storages.size() == b.storages.size());
  for (size_t i = 0; i < a.storages.size(); ++i) {
    const Storage &x = a.storages[i], &y = b.storages[i];
    RC_ASSERT(x.bytes == y.bytes && x.category == y.category && x.tier == y.tier);
    RC_ASSERT(a.module_name(x.owner) == b.module_name(y.owner));
  }
  RC_ASSERT(a.tensors.size() == b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const TensorInfo &x = a.tensors[i], &y = b.tensors[i];
    RC_ASSERT(x.storage == y.storage && x.dtype == y.dtype && x.requires_grad == y.requires_grad);
    RC_ASSERT(x.is_view == y.is_view && x.layout == y.layout);
  }
  RC_ASSERT(a.ops.size() == b.ops.size());
  for (size_t i = 0; i < a.ops.size(); ++i) {
    const Op &x = a.ops[i], &y = b.ops[i];
    RC_ASSERT(x.kind == y.kind && x.stream == y.stream && x.is_recomputed == y.is_recomputed);
    RC_ASSERT(a.module_name(x.module) == b.module_name(y.module));
    RC_ASSERT(x.backward_of == y.backward_of && x.workspace == y.workspace);
    RC_ASSERT(a.attributes_of(x) == b.attributes_of(y));
    RC_ASSERT(std::ranges::equal(a.inputs(x), b.inputs(y)) && std::ranges::equal(a.outputs(x), b.outputs(y)));
  }
}

void check_same_order(const Program& a, const Program& b) {
  RC_ASSERT(a.statements.size() == b.statements.size());
  for (size_t i = 0; i < a.statements.size(); ++i) {
    const Statement &x = a.statements[i], &y = b.statements[i];
    RC_ASSERT(x.kind == y.kind && x.holder == y.holder && x.index == y.index);
  }
  RC_ASSERT(a.regions.size() == b.regions.size());
  for (size_t i = 0; i < a.regions.size(); ++i) {
    const Region &x = a.regions[i], &y = b.regions[i];
    RC_ASSERT(x.kind == y.kind && a.module_name(x.module) == b.module_name(y.module));
    RC_ASSERT(x.arguments == y.arguments && x.keywords == y.keywords && x.results == y.results);
    RC_ASSERT(x.checkpoint == y.checkpoint && x.kept == y.kept && x.alternately_kept == y.alternately_kept &&
              x.keeps_only_needed == y.keeps_only_needed && x.is_recomputed_whole == y.is_recomputed_whole &&
              x.is_unit == y.is_unit);
  }
  RC_ASSERT(a.sections.size() == b.sections.size() && a.schedule.size() == b.schedule.size());
  for (size_t i = 0; i < a.sections.size(); ++i) {
    const Section &x = a.sections[i], &y = b.sections[i];
    RC_ASSERT(x.name == y.name && x.first_statement == y.first_statement &&
              x.last_statement == y.last_statement);
  }
  for (size_t i = 0; i < a.schedule.size(); ++i)
    RC_ASSERT(a.schedule[i].phase == b.schedule[i].phase && a.schedule[i].section == b.schedule[i].section);
  RC_ASSERT(a.is_complete == b.is_complete && a.parameters == b.parameters);
  RC_ASSERT(a.groups == b.groups && a.notes == b.notes);
}

RC_GTEST_PROP(ProgramTextLaw, WhatIsWrittenReadsTheSame, ()) {
  const Program program = any_program();
  const std::string text = to_text(program);
  const Result<Program> again = parse_program(text, "again");
  if (!again) RC_FAIL(again.error().to_text() + "\n" + text);
  check_same_tables(program, *again);
  check_same_order(program, *again);
  RC_ASSERT(to_text(*again) == text);
}

RC_GTEST_PROP(ProgramTextLaw, DamagedTextNeverCrashes, ()) {
  std::string text = to_text(any_program());
  for (int i = *rc::gen::inRange(1, 5); i > 0; --i) {
    const auto at = *rc::gen::inRange<size_t>(0, text.size());
    text[at] = *rc::gen::elementOf(std::string("0123456789%sr#\"\\{}[]()=,:@/ \nabcx-"));
  }
  const Result<Program> program = parse_program(text, "damaged");
  if (program) RC_ASSERT(parse_program(to_text(*program), "again").has_value());
}

}  // namespace
}  // namespace plimsoll
