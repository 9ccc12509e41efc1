#include "validation/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "program/verify.h"
#include "validation/csv.h"
#include "validation/validate.h"

namespace plimsoll {
namespace {

using ::testing::HasSubstr;

const std::filesystem::path kLedger = std::filesystem::path(PLIMSOLL_SOURCE_DIR) / "validation";

std::set<std::string> known_residuals() {
  std::ifstream in(kLedger / "known_residuals.csv");
  std::stringstream text;
  text << in.rdbuf();
  const Result<CsvTable> table = CsvTable::parse(text.str(), "known_residuals.csv");
  std::set<std::string> ids;
  for (size_t i = 0; table && i < table->rows(); ++i) ids.insert(table->at(i, "id"));
  return ids;
}

// Every traced run is predicted to the byte in every phase, but for those listed with their reason.
TEST(Ledger, TracedRunsAreExactInEveryPhase) {
  const Result<std::vector<ReferenceRow>> rows = read_reference_rows(kLedger / "reference_traces.csv");
  ASSERT_TRUE(rows) << rows.error().to_text();
  ASSERT_GT(rows->size(), 100u);
  const std::set<std::string> residuals = known_residuals();
  for (const ReferenceRow& row : *rows) {
    const RowComparison comparison = compare(row);
    if (residuals.contains(row.id)) continue;
    EXPECT_TRUE(comparison.is_exact() && comparison.has_equal_categories())
        << row.id << (comparison.unmapped.empty() ? "" : ": " + comparison.unmapped);
  }
}

// Families, engines and options of all traced runs: their programs hold under verify.
TEST(Ledger, ProgramsOfTracedRunsHoldTogether) {
  const Result<std::vector<ReferenceRow>> rows = read_reference_rows(kLedger / "reference_traces.csv");
  ASSERT_TRUE(rows);
  for (const ReferenceRow& row : *rows) {
    const Result<Program> program = program_of(row);
    ASSERT_TRUE(program) << row.id;
    const Result<void> holds =
        verify(*program, {.may_keep_outputs = row.job.loop.hold_outputs,
                          .may_keep_gradients = row.job.loop.zero_grad != ZeroGrad::kSetToNone});
    EXPECT_TRUE(holds) << row.id << ": " << holds.error().to_text();
  }
}

TEST(Ledger, AWrongRowIsNamedWithItsLine) {
  const std::string header = "id,model,layers,settings,quantity,peaks,peak_phase,categories\n";
  const auto error_of = [&](const std::string& row) {
    const auto table = CsvTable::parse(header + row, "x.csv");
    const auto rows = read_ledger_rows(*table, "x.csv");
    return rows ? std::string("no error") : rows.error().to_text();
  };
  EXPECT_THAT(error_of("a,gpt2,,batch.sequenc=1,live,,fwd1,\n"), HasSubstr("x.csv:2"));
  EXPECT_THAT(error_of("a,gpt2,many,,live,,fwd1,\n"), HasSubstr("key \"layers\""));
  EXPECT_THAT(error_of("a,gpt2,,,live,fwd1:12x,fwd1,\n"), HasSubstr("NAME:BYTES"));
  EXPECT_EQ(error_of("a,gpt2,2,batch.sequence=16,live,fwd1:12,fwd1,param:3\n"), "no error");
}

TEST(Csv, QuotesAndErrors) {
  const auto table = CsvTable::parse("a,b\n\"x, \"\"y\"\"\",2\n", "t.csv");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->at(0, "a"), "x, \"y\"");
  EXPECT_THAT(CsvTable::parse("a,b\n1\n", "t.csv").error().to_text(),
              HasSubstr("t.csv:2: the row has 1 cells"));
  EXPECT_THAT(CsvTable::parse("a\n\"1\n", "t.csv").error().to_text(), HasSubstr("does not end"));
  EXPECT_THAT(CsvTable::parse("", "t.csv").error().to_text(), HasSubstr("empty"));
}

}  // namespace
}  // namespace plimsoll
