#include "program/text/parser.h"

#include "program/text.h"

namespace plimsoll {

Result<Program> parse_program(std::string_view text, std::string_view file) {
  return ProgramParser(text, file).parse();
}

Result<Program> ProgramParser::parse() {
  PLIMSOLL_CHECK(parse_header());
  while (in_.next_line()) {
    PLIMSOLL_CHECK(parse_line());
    if (!in_.at_line_end()) return in_.error("unexpected text", "the end of the line");
  }
  return finish();
}

Result<void> ProgramParser::parse_header() {
  if (!in_.next_line() || !in_.accept("plimsoll") || !in_.accept("program"))
    return in_.error("not the text of a program", "plimsoll program 1 forward");
  PLIMSOLL_CHECK(in_.integer(1, 1, "the version of the form"));
  p_.is_complete = in_.accept("complete");
  if (!p_.is_complete) PLIMSOLL_CHECK(in_.expect("forward"));
  if (!in_.at_line_end()) return in_.error("unexpected text", "the end of the line");
  return {};
}

Result<void> ProgramParser::parse_line() {
  if (in_.accept("drop")) return parse_drop();
  if (in_.accept("free")) return parse_free();
  if (in_.accept("begin")) return parse_mark(StatementKind::kBegin);
  if (in_.accept("end")) return parse_mark(StatementKind::kEnd);
  if (in_.accept("tensor")) return parse_tensor();
  if (in_.accept("storage")) return parse_storage();
  if (in_.accept("parameters")) return parse_parameters();
  if (in_.accept("region")) return parse_region();
  if (in_.accept("section")) return parse_section();
  if (in_.accept("play")) return parse_play();
  if (in_.accept("group")) {
    PLIMSOLL_TRY(name, in_.quoted());
    p_.groups.push_back(std::move(name));
    return {};
  }
  if (in_.accept("note")) {
    PLIMSOLL_TRY(note, in_.quoted());
    p_.notes.push_back(std::move(note));
    return {};
  }
  return parse_op();
}

Result<Program> ProgramParser::finish() {
  PLIMSOLL_TRY(sections, sections_.take(file_));
  for (size_t i = 0; i < sections.size(); ++i) {
    if (!sections[i].has_end)
      return fail({.position = {.file = file_},
                   .message = fmt::format("section {} has no end", i),
                   .expected = fmt::format("section {} end", i)});
    p_.sections.push_back(std::move(sections[i].section));
  }
  PLIMSOLL_TRY(storages, storages_.take(file_));
  p_.storages = std::move(storages);
  PLIMSOLL_TRY(tensors, tensors_.take(file_));
  p_.tensors = std::move(tensors);
  PLIMSOLL_TRY(regions, regions_.take(file_));
  p_.regions = std::move(regions);
  return std::move(p_);
}

// ---- tables ----

Result<void> ProgramParser::parse_tensor() {
  SourcePosition position = in_.position();
  PLIMSOLL_TRY(id, in_.id('%', "a tensor"));
  PLIMSOLL_CHECK(in_.expect(':'));
  PLIMSOLL_TRY(definition, parse_definition(id, std::move(position)));
  return define(std::move(definition), std::nullopt, ModuleId{});
}

Result<void> ProgramParser::parse_storage() {
  Definition words{.position = in_.position()};
  PLIMSOLL_TRY(id, in_.id('s', "a storage"));
  while (!in_.at_line_end()) {
    PLIMSOLL_TRY(is_known, parse_storage_word(words));
    if (!is_known) return in_.error("unexpected text", "bytes=N, a category, a tier or of @module");
  }
  if (!words.bytes) return in_.error("a storage without size", "bytes=N");
  return define_storage(id, words, ModuleId{}, Bytes{});
}

Result<void> ProgramParser::parse_parameters() {
  PLIMSOLL_TRY(tensors, parse_list());
  p_.parameters.insert(p_.parameters.end(), tensors.begin(), tensors.end());
  return {};
}

Result<void> ProgramParser::parse_kinds(std::vector<OpKind>& kinds) {
  PLIMSOLL_CHECK(in_.expect('('));
  do {
    const std::optional<OpKind> op = op_kind_from_name(in_.peek_word());
    if (!op) return in_.error(fmt::format("unknown op \"{}\"", in_.peek_word()));
    in_.take_word();
    kinds.push_back(*op);
  } while (in_.accept(','));
  return in_.expect(')');
}

Result<void> ProgramParser::parse_region() {
  SourcePosition position = in_.position();
  PLIMSOLL_TRY(id, in_.id('r', "a region"));
  Region region;
  PLIMSOLL_TRY(kind, parse_enum<RegionKind>("kind of region"));
  region.kind = kind;
  PLIMSOLL_CHECK(in_.expect('@'));
  PLIMSOLL_TRY(module, parse_module());
  region.module = module;
  PLIMSOLL_TRY(arguments, parse_list());
  region.arguments = std::move(arguments);
  if (in_.accept("keywords")) {
    PLIMSOLL_TRY(keywords, parse_list());
    region.keywords = std::move(keywords);
  }
  PLIMSOLL_CHECK(in_.expect('-'));
  PLIMSOLL_CHECK(in_.expect('>'));
  PLIMSOLL_TRY(results, parse_list());
  region.results = std::move(results);
  if (const auto checkpoint = enum_from_name<Checkpoint>(in_.peek_word())) {
    in_.take_word();
    region.checkpoint = *checkpoint;
  }
  if (in_.accept("keeps")) PLIMSOLL_CHECK(parse_kinds(region.kept));
  if (in_.accept("alternates")) PLIMSOLL_CHECK(parse_kinds(region.alternately_kept));
  region.keeps_only_needed = in_.accept("needed");
  region.is_recomputed_whole = in_.accept("whole");
  region.is_unit = in_.accept("unit");
  return regions_.define(id, std::move(region), std::move(position));
}

Result<void> ProgramParser::parse_section() {
  SourcePosition position = in_.position();
  PLIMSOLL_TRY(number, in_.integer(0, 1'000'000, "a section"));
  const auto id = static_cast<uint32_t>(number);
  const auto here = static_cast<uint32_t>(p_.statements.size());
  if (in_.accept("begin")) {
    PLIMSOLL_TRY(name, in_.quoted());
    return sections_.define(id, {.section = {.name = std::move(name), .first_statement = here}},
                            std::move(position));
  }
  PLIMSOLL_CHECK(in_.expect("end"));
  if (!sections_.has(id) || sections_[id].has_end)
    return fail({.position = std::move(position), .message = fmt::format("section {} isn't open here", id)});
  sections_[id].has_end = true;
  sections_[id].section.last_statement = here;
  return {};
}

Result<void> ProgramParser::parse_play() {
  const int line = in_.line(), column = in_.column();
  PLIMSOLL_TRY(number, in_.integer(0, 1'000'000, "a section"));
  const auto id = static_cast<uint32_t>(number);
  sections_.refer(id, line, column);
  PLIMSOLL_CHECK(in_.expect("as"));
  PLIMSOLL_TRY(phase, in_.quoted());
  p_.schedule.push_back({std::move(phase), id});
  return {};
}

Result<void> ProgramParser::parse_mark(StatementKind kind) {
  const int line = in_.line(), column = in_.column();
  PLIMSOLL_TRY(id, in_.id('r', "a region"));
  regions_.refer(id, line, column);
  add_statement(kind, id);
  return {};
}

Result<void> ProgramParser::parse_drop() {
  PLIMSOLL_TRY(tensor, reference_tensor());
  add_statement(StatementKind::kDrop, tensor.value);
  return {};
}

Result<void> ProgramParser::parse_free() {
  const int line = in_.line(), column = in_.column();
  PLIMSOLL_TRY(id, in_.id('s', "a storage"));
  storages_.refer(id, line, column);
  PLIMSOLL_TRY(holder, parse_enum<Holder>("holder"));
  add_statement(StatementKind::kFree, id, holder);
  return {};
}

}  // namespace plimsoll
