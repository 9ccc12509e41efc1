#include "program/passes/pass_list.h"

#include <fmt/format.h>

#include <algorithm>

namespace plimsoll {

ProgramSize size_of(const Program& program) {
  const auto marked = [&](auto has_mark) { return std::ranges::count_if(program.regions, has_mark); };
  return {.ops = static_cast<int64_t>(program.ops.size()),
          .statements = static_cast<int64_t>(program.statements.size()),
          .storages = static_cast<int64_t>(program.storages.size()),
          .checkpoints = marked([](const Region& r) { return r.checkpoint != Checkpoint::kNone; }),
          .units = marked([](const Region& r) { return r.is_unit; })};
}

std::string PassRecord::to_text() const {
  std::string changes;
  const auto add = [&](int64_t count, std::string_view what) {
    if (count != 0) changes += fmt::format("{}{:+} {}", changes.empty() ? "" : ", ", count, what);
  };
  add(added.ops, "ops");
  add(added.statements, "statements");
  add(added.storages, "storages");
  add(added.checkpoints, "checkpoints");
  add(added.units, "units");
  return fmt::format("{:<16} {:2} x {:8.2f} ms   {}", name, runs, static_cast<double>(duration.value) * 1e-6,
                     changes.empty() ? "nothing" : changes);
}

void PassList::record(std::string_view name, const ProgramSize& before, const ProgramSize& after,
                      Nanoseconds duration) {
  auto r = std::ranges::find(records_, name, &PassRecord::name);
  if (r == records_.end()) {
    records_.push_back({.name = std::string(name)});
    r = records_.end() - 1;
  }
  ++r->runs;
  r->duration += duration;
  r->added.ops += after.ops - before.ops;
  r->added.statements += after.statements - before.statements;
  r->added.storages += after.storages - before.storages;
  r->added.checkpoints += after.checkpoints - before.checkpoints;
  r->added.units += after.units - before.units;
}

std::string PassList::to_text() const {
  std::string text;
  for (const PassRecord& r : records_) text += r.to_text() + "\n";
  return text;
}

Result<void> PassList::check(const Program& program) const {
  if (!options_.verifies) return {};
  Result<void> result = verify(program, options_.verify);
  if (result) return {};
  Error error = std::move(result).error();
  error.message =
      fmt::format("after pass \"{}\": {}", records_.empty() ? "none" : records_.back().name, error.message);
  return fail(std::move(error));
}

}  // namespace plimsoll
