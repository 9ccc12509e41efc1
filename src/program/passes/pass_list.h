// The passes that make a program, each named and timed. A pass is switched by the job it reads: degree 1 or
// "none" leaves the program as it was, and its record says so. With `verifies` a forward program is verified
// after each pass, a complete one when `check` is called: between its passes it is half written.
//
//   PassList passes({.verifies = true});
//   PLIMSOLL_CHECK(passes.run("recompute", program, [&] { return mark_recompute(program, job.recompute); }));
//   passes.to_text();   // "recompute   1 x   0.10 ms   +32 checkpoints"
//
// Durations are for developers; no result of an estimate depends on them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "program/program.h"
#include "program/verify.h"

namespace plimsoll {

// What a program consists of, counted; or the difference that a pass made.
struct ProgramSize {
  int64_t ops = 0;
  int64_t statements = 0;
  int64_t storages = 0;
  int64_t checkpoints = 0;  // regions with that mark
  int64_t units = 0;        // regions with that mark
  friend bool operator==(const ProgramSize&, const ProgramSize&) = default;
};
ProgramSize size_of(const Program& program);

struct PassRecord {
  std::string name;
  int runs = 0;
  ProgramSize added;
  Nanoseconds duration;

  std::string to_text() const;  // "differentiate   2 x   12.10 ms   +4096 ops, +9812 statements"
};

struct PassOptions {
  bool verifies = false;
  VerifyOptions verify;
};

class PassList {
 public:
  explicit PassList(PassOptions options = {}) : options_(options) {}

  // `pass` changes `program` and returns Result<void>. Runs of one name are one record.
  template <typename Pass>
  Result<void> run(std::string_view name, Program& program, Pass&& pass) {
    const ProgramSize before = size_of(program);
    const auto start = std::chrono::steady_clock::now();
    PLIMSOLL_CHECK(pass());
    const std::chrono::nanoseconds duration = std::chrono::steady_clock::now() - start;
    record(name, before, size_of(program), Nanoseconds{duration.count()});
    return program.is_complete ? Result<void>{} : check(program);
  }
  // Verifies when `verifies`; an error names the last pass.
  Result<void> check(const Program& program) const;

  const std::vector<PassRecord>& records() const { return records_; }
  std::string to_text() const;  // one line a pass, in the order in which they ran first

 private:
  void record(std::string_view name, const ProgramSize& before, const ProgramSize& after,
              Nanoseconds duration);

  PassOptions options_;
  std::vector<PassRecord> records_;
};

}  // namespace plimsoll
