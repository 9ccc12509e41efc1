#include "program/text/parser.h"

namespace plimsoll {

Result<TensorId> ProgramParser::reference_tensor() {
  const int line = in_.line(), column = in_.column();
  PLIMSOLL_TRY(id, in_.id('%', "a tensor"));
  tensors_.refer(id, line, column);
  return TensorId{id};
}

Result<std::vector<TensorId>> ProgramParser::parse_list() {
  std::vector<TensorId> tensors;
  PLIMSOLL_CHECK(in_.expect('('));
  if (in_.accept(')')) return tensors;
  do {
    PLIMSOLL_TRY(tensor, reference_tensor());
    tensors.push_back(tensor);
  } while (in_.accept(','));
  PLIMSOLL_CHECK(in_.expect(')'));
  return tensors;
}

Result<ModuleId> ProgramParser::parse_module() {
  PLIMSOLL_TRY(name, in_.name("a module"));
  return p_.module(name);
}

Result<std::vector<int64_t>> ProgramParser::parse_dims() {
  std::vector<int64_t> dims;
  PLIMSOLL_CHECK(in_.expect('['));
  if (in_.accept(']')) return dims;
  do {
    if (dims.size() == kMaxRank) return in_.error("too many dims", fmt::format("at most {}", kMaxRank));
    PLIMSOLL_TRY(dim, in_.integer(0, kMaxQuantity, "a size or stride"));
    dims.push_back(dim);
  } while (in_.accept(','));
  PLIMSOLL_CHECK(in_.expect(']'));
  return dims;
}

Result<Layout> ProgramParser::parse_layout() {
  PLIMSOLL_TRY(sizes, parse_dims());
  Layout layout = Layout::contiguous(sizes);
  if (!in_.accept('/')) return layout;
  PLIMSOLL_TRY(strides, parse_dims());
  if (strides.size() != sizes.size())
    return in_.error("as many strides as sizes are needed", fmt::format("{} strides", sizes.size()));
  std::copy(strides.begin(), strides.end(), layout.strides.begin());
  return layout;
}

Result<ProgramParser::Definition> ProgramParser::parse_definition(uint32_t id, SourcePosition position) {
  Definition definition{.id = id, .position = std::move(position)};
  const std::optional<DType> dtype = dtype_from_name(in_.peek_word());
  if (!dtype) return in_.error(fmt::format("unknown dtype \"{}\"", in_.peek_word()), "bf16, fp32, int64 ...");
  in_.take_word();
  definition.info.dtype = *dtype;
  PLIMSOLL_TRY(layout, parse_layout());
  definition.info.layout = layout;
  definition.info.requires_grad = in_.accept("grad");
  definition.info.is_view = in_.accept("view");
  const std::string_view word = in_.peek_word();
  if (word.size() > 1 && word[0] == 's' && word[1] >= '0' && word[1] <= '9') {
    PLIMSOLL_TRY(storage, in_.id('s', "a storage"));
    definition.storage = storage;
  }
  bool goes_on = true;
  while (goes_on) {
    PLIMSOLL_TRY(is_known, parse_storage_word(definition));
    goes_on = is_known;
  }
  return definition;
}

// One of the words that say what a storage is; false when the next word is none.
Result<bool> ProgramParser::parse_storage_word(Definition& definition) {
  if (in_.accept("bytes")) {
    PLIMSOLL_CHECK(in_.expect('='));
    PLIMSOLL_TRY(bytes, in_.integer(0, kMaxQuantity, "the size of a storage"));
    definition.bytes = bytes;
    return true;
  }
  if (in_.accept("of")) {
    PLIMSOLL_CHECK(in_.expect('@'));
    PLIMSOLL_TRY(module, parse_module());
    definition.owner = module;
    return true;
  }
  const std::string_view word = in_.peek_word();
  if (const auto category = enum_from_name<Category>(word)) {
    definition.category = category;
  } else if (const auto tier = enum_from_name<Tier>(word)) {
    definition.tier = tier;
  } else {
    return false;
  }
  in_.take_word();
  return true;
}

Result<void> ProgramParser::define(Definition definition, std::optional<StorageId> shared, ModuleId module) {
  const bool says_storage = definition.bytes || definition.category || definition.tier || definition.owner;
  uint32_t storage = static_cast<uint32_t>(highest_storage_ + 1);
  if (definition.storage) {
    storage = *definition.storage;
  } else if (shared) {
    storage = shared->value;
  }
  const Bytes natural = Bytes{definition.info.layout.elements()} * bytes_of(definition.info.dtype);
  if (!storages_.has(storage)) {
    PLIMSOLL_CHECK(define_storage(storage, definition, module, natural));
  } else if (says_storage) {
    return fail({.position = definition.position,
                 .message = fmt::format("storage s{} was described before", storage),
                 .expected = "its size, category, tier and owner only where it is first named"});
  }
  definition.info.storage = StorageId{storage};
  return tensors_.define(definition.id, definition.info, definition.position);
}

Result<void> ProgramParser::define_storage(uint32_t id, const Definition& words, ModuleId module,
                                           Bytes natural) {
  highest_storage_ = std::max<int64_t>(highest_storage_, id);
  return storages_.define(id,
                          {.bytes = words.bytes ? Bytes{*words.bytes} : natural,
                           .category = words.category.value_or(Category::kActivation),
                           .tier = words.tier.value_or(Tier::kGpu),
                           .owner = words.owner.value_or(module)},
                          words.position);
}

}  // namespace plimsoll
