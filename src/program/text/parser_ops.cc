#include <limits>
#include <unordered_set>

#include "program/text/parser.h"

namespace plimsoll {

Result<void> ProgramParser::parse_op() {
  std::vector<Definition> definitions;
  PLIMSOLL_TRY(outputs, parse_outputs(definitions));
  const std::optional<OpKind> kind = op_kind_from_name(in_.peek_word());
  if (!kind)
    return in_.error(fmt::format("unknown op \"{}\"", in_.peek_word()), "an op such as Mm, or a statement");
  in_.take_word();
  PLIMSOLL_TRY(inputs, parse_list());
  Op op{.kind = *kind,
        .first_input = static_cast<uint32_t>(p_.operands.size()),
        .input_count = static_cast<uint32_t>(inputs.size()),
        .first_output = static_cast<uint32_t>(p_.operands.size() + inputs.size()),
        .output_count = static_cast<uint32_t>(outputs.size())};
  PLIMSOLL_CHECK(parse_op_words(op));
  std::optional<StorageId> shared;
  if (shares_input_storage(op.kind) && !inputs.empty() && tensors_.has(inputs[0].value))
    shared = tensors_[inputs[0].value].storage;
  for (Definition& definition : definitions) PLIMSOLL_CHECK(define(std::move(definition), shared, op.module));
  p_.operands.insert(p_.operands.end(), inputs.begin(), inputs.end());
  p_.operands.insert(p_.operands.end(), outputs.begin(), outputs.end());
  p_.ops.push_back(op);
  add_statement(StatementKind::kOp, static_cast<uint32_t>(p_.ops.size() - 1));
  return {};
}

Result<std::vector<TensorId>> ProgramParser::parse_outputs(std::vector<Definition>& definitions) {
  std::vector<TensorId> outputs;
  std::unordered_set<uint32_t> seen;
  if (const std::string_view word = in_.peek_word(); !word.empty()) return outputs;
  do {
    SourcePosition position = in_.position();
    PLIMSOLL_TRY(tensor, reference_tensor());
    if (!seen.insert(tensor.value).second)
      return fail(
          {.position = std::move(position), .message = fmt::format("%{} is a result twice", tensor.value)});
    outputs.push_back(tensor);
    if (!in_.accept(':')) continue;
    PLIMSOLL_TRY(definition, parse_definition(tensor.value, std::move(position)));
    definitions.push_back(std::move(definition));
  } while (in_.accept(','));
  PLIMSOLL_CHECK(in_.expect('='));
  return outputs;
}

// What follows an op's inputs, in this order; each may be missing.
Result<void> ProgramParser::parse_op_words(Op& op) {
  if (in_.accept('{')) {
    PLIMSOLL_TRY(attributes, parse_attributes());
    op.attributes = p_.add_attributes(attributes);
    PLIMSOLL_CHECK(in_.expect('}'));
  }
  if (in_.accept('@')) {
    PLIMSOLL_TRY(module, parse_module());
    op.module = module;
  }
  if (in_.accept("on")) {
    PLIMSOLL_TRY(stream, parse_enum<Stream>("stream"));
    op.stream = stream;
  }
  if (in_.accept("backward_of")) {
    op.backward_of = op_kind_from_name(in_.peek_word());
    if (!op.backward_of) return in_.error(fmt::format("unknown op \"{}\"", in_.peek_word()));
    in_.take_word();
  }
  op.is_recomputed = in_.accept("recomputed");
  if (in_.accept("workspace")) {
    PLIMSOLL_CHECK(in_.expect('='));
    PLIMSOLL_TRY(bytes, in_.integer(0, kMaxQuantity, "a workspace"));
    op.workspace = Bytes{bytes};
  }
  return {};
}

Result<Attributes> ProgramParser::parse_attributes() {
  constexpr int64_t kHighest32 = std::numeric_limits<int32_t>::max();
  if (in_.accept("over")) {
    PLIMSOLL_TRY(mask, in_.integer(0, std::numeric_limits<uint32_t>::max(), "a mask of dims"));
    return DimAttr{.mask = static_cast<uint32_t>(mask), .keep_dims = in_.accept("keep")};
  }
  if (in_.accept("order")) return parse_dim_list();
  if (in_.accept("dim")) {
    PLIMSOLL_TRY(dim, in_.integer(-kMaxRank - 1, kHighest32, "a dim"));
    PLIMSOLL_CHECK(in_.expect("from"));
    PLIMSOLL_TRY(start, in_.integer(-kMaxQuantity, kMaxQuantity, "a start"));
    PLIMSOLL_CHECK(in_.expect("step"));
    PLIMSOLL_TRY(step, in_.integer(-kMaxQuantity, kMaxQuantity, "a step"));
    return SliceAttr{.dim = static_cast<int>(dim), .start = start, .step = step};
  }
  if (in_.accept("group")) {
    PLIMSOLL_TRY(group, in_.integer(0, kHighest32, "a group"));
    return CollectiveAttr{.group = static_cast<uint32_t>(group)};
  }
  if (in_.accept("fused")) {
    FusedAttr fused{.has_norm_bias = in_.accept("norm_bias")};
    fused.has_bias = in_.accept("bias");
    fused.sums_input_gradient = in_.accept("sums");
    fused.adds_weight_gradient = in_.accept("adds");
    PLIMSOLL_CHECK(in_.expect("multiprocessors"));
    PLIMSOLL_TRY(count, in_.integer(0, kHighest32, "a number of multiprocessors"));
    fused.multiprocessors = count;
    if (in_.accept("gathers")) {
      PLIMSOLL_TRY(ranks, in_.integer(1, kHighest32, "a number of ranks"));
      fused.input_ranks = ranks;
    }
    if (in_.accept("scatters")) {
      PLIMSOLL_TRY(ranks, in_.integer(1, kHighest32, "a number of ranks"));
      fused.result_ranks = ranks;
    }
    return fused;
  }
  const bool is_causal = in_.accept("causal");
  if (is_causal || in_.accept("full")) {
    PLIMSOLL_CHECK(in_.expect("dropout"));
    PLIMSOLL_TRY(dropout, in_.number("a probability"));
    return AttentionAttr{.is_causal = is_causal, .dropout = dropout};
  }
  PLIMSOLL_TRY(value, in_.number("over, order, dim, group, fused, causal, full or a number"));
  return ScalarAttr{value};
}

Result<Attributes> ProgramParser::parse_dim_list() {
  DimsAttr attribute;
  size_t count = 0;
  PLIMSOLL_CHECK(in_.expect('['));
  if (in_.accept(']')) return attribute;
  do {
    if (count == attribute.dims.size())
      return in_.error("too many dims", fmt::format("at most {}", kMaxRank));
    PLIMSOLL_TRY(dim, in_.integer(-kMaxRank, kMaxRank - 1, "a dim"));
    attribute.dims[count++] = static_cast<int8_t>(dim);
  } while (in_.accept(','));
  PLIMSOLL_CHECK(in_.expect(']'));
  return attribute;
}

}  // namespace plimsoll
