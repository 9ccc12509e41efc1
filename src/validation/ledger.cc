#include "validation/ledger.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>

#include "strategy/job_file.h"

namespace plimsoll {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    if (space != 0) words.push_back(text.substr(0, space));
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return words;
}

std::optional<int64_t> integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

class LedgerReader {
 public:
  LedgerReader(const CsvTable& table, const std::string& file, size_t row)
      : table_(table), file_(file), row_(row) {}

  Result<ReferenceRow> read() {
    ReferenceRow out;
    out.id = cell("id");
    out.job.model.name = cell("model");
    if (!cell("layers").empty()) {
      out.job.model.layers = integer(cell("layers"));
      if (!out.job.model.layers) return bad("layers", cell("layers"), "an integer");
    }
    const std::optional<MeasuredQuantity> quantity = quantity_from_name(cell("quantity"));
    if (!quantity)
      return bad("quantity", cell("quantity"), fmt::format("one of {}", fmt::join(quantity_names(), ", ")));
    out.quantity = *quantity;
    for (std::string_view word : words_of(cell("settings")))
      if (Result<void> applied = apply_setting(out.job, word); !applied) return fail(placed(applied.error()));
    if (out.quantity != MeasuredQuantity::kLive && out.job.hardware.gpu.empty())
      return bad("settings", cell("settings"),
                 fmt::format("hardware.gpu among them, since {} depends on the GPU", name_of(out.quantity)));
    PLIMSOLL_TRY(peaks, numbers("peaks"));
    out.phase_peaks = std::move(peaks);
    if (out.phase_peaks.empty()) return bad("peaks", cell("peaks"), "PHASE:BYTES, at least one");
    PLIMSOLL_TRY(categories, numbers("categories"));
    out.peak_categories = std::move(categories);
    out.peak_phase = cell("peak_phase");
    return out;
  }

 private:
  const std::string& cell(const std::string& name) const { return table_.at(row_, name); }

  Result<std::map<std::string, int64_t>> numbers(const std::string& column) const {
    std::map<std::string, int64_t> values;
    for (std::string_view word : words_of(cell(column))) {
      const size_t colon = word.find(':');
      const std::optional<int64_t> bytes =
          colon == std::string_view::npos ? std::nullopt : integer(word.substr(colon + 1));
      if (!bytes) return bad(column, word, "NAME:BYTES");
      values.emplace(word.substr(0, colon), *bytes);
    }
    return values;
  }

  Error placed(Error error) const {
    error.position.file = file_;
    error.position.line = static_cast<int>(row_ + 2);
    return error;
  }
  tl::unexpected<Error> bad(const std::string& column, std::string_view text, std::string expected) const {
    return fail(placed({.position = {.key = column},
                        .message = fmt::format("\"{}\" is not understood", text),
                        .expected = std::move(expected)}));
  }

  const CsvTable& table_;
  const std::string& file_;
  size_t row_;
};

}  // namespace

Result<std::vector<ReferenceRow>> read_ledger_rows(const CsvTable& table, const std::string& file) {
  for (const char* column : {"id", "model", "settings", "quantity", "peaks"})
    if (!table.has_column(column))
      return fail({.position = {.file = file, .line = 1},
                   .message = fmt::format("column \"{}\" is missing", column),
                   .expected = "the columns id, model, settings, quantity, peaks, and where wanted layers, "
                               "peak_phase, categories, source",
                   .hint = "docs/measured_rows.md has an example"});
  std::vector<ReferenceRow> rows;
  for (size_t i = 0; i < table.rows(); ++i) {
    PLIMSOLL_TRY(row, LedgerReader(table, file, i).read());
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace plimsoll
