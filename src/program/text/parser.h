// The parser behind parse_program (text.h): one member function per kind of line.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "program/program.h"
#include "program/text/ids.h"
#include "program/text/scanner.h"

namespace plimsoll {

class ProgramParser {
 public:
  ProgramParser(std::string_view text, std::string_view file) : in_(text, file), file_(file) {}

  Result<Program> parse();

 private:
  // A tensor as the text says it; its storage may follow from the op.
  struct Definition {
    uint32_t id = 0;
    TensorInfo info;
    SourcePosition position;
    std::optional<uint32_t> storage;
    std::optional<int64_t> bytes;
    std::optional<Category> category;
    std::optional<Tier> tier;
    std::optional<ModuleId> owner;
  };
  struct OpenSection {
    Section section;
    bool has_end = false;
  };

  Result<void> parse_header();
  Result<void> parse_line();
  Result<Program> finish();

  // ---- text_parser.cc: tables ----
  Result<void> parse_tensor();
  Result<void> parse_storage();
  Result<void> parse_parameters();
  Result<void> parse_region();
  Result<void> parse_kinds(std::vector<OpKind>& kinds);
  Result<void> parse_section();
  Result<void> parse_play();
  Result<void> parse_mark(StatementKind kind);  // begin, end
  Result<void> parse_drop();
  Result<void> parse_free();

  // ---- text_parser_ops.cc ----
  Result<void> parse_op();
  Result<std::vector<TensorId>> parse_outputs(std::vector<Definition>& definitions);
  Result<void> parse_op_words(Op& op);
  Result<Attributes> parse_attributes();
  Result<Attributes> parse_dim_list();

  // ---- shared ----
  Result<TensorId> reference_tensor();
  Result<std::vector<TensorId>> parse_list();                                 // (%1, %2)
  Result<Definition> parse_definition(uint32_t id, SourcePosition position);  // from the dtype on
  Result<Layout> parse_layout();
  Result<std::vector<int64_t>> parse_dims();  // [1,2]
  Result<bool> parse_storage_word(Definition& definition);
  Result<void> define(Definition definition, std::optional<StorageId> shared, ModuleId module);
  Result<void> define_storage(uint32_t id, const Definition& definition, ModuleId module, Bytes natural);
  Result<ModuleId> parse_module();  // after '@'
  template <typename Enum>
  Result<Enum> parse_enum(std::string_view what);
  void add_statement(StatementKind kind, uint32_t index, Holder holder = Holder::kLocal) {
    p_.statements.push_back({.kind = kind, .holder = holder, .index = index});
  }

  TextScanner in_;
  std::string file_;
  Program p_;
  TextIds<TensorInfo> tensors_{"tensor", "%"};
  TextIds<Storage> storages_{"storage", "s"};
  TextIds<Region> regions_{"region", "r"};
  TextIds<OpenSection> sections_{"section", ""};
  int64_t highest_storage_ = -1;
};

template <typename Enum>
Result<Enum> ProgramParser::parse_enum(std::string_view what) {
  const std::optional<Enum> value = enum_from_name<Enum>(in_.peek_word());
  if (!value) return in_.error(fmt::format("unknown {} \"{}\"", what, in_.peek_word()));
  in_.take_word();
  return *value;
}

}  // namespace plimsoll
