// For tests: a job of rank_program, what it wrote and how it ended.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace plimsoll::runtime {

struct RanksRun {
  int exit_code = -1;
  std::string output;  // both streams
  double seconds = 0;
};

inline RanksRun run_ranks(const std::string& arguments, const std::string& variables = "") {
  const auto start = std::chrono::steady_clock::now();
  RanksRun run;
  const std::string command = fmt::format("{} '{}' {} 2>&1", variables, PLIMSOLL_RANK_PROGRAM, arguments);
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> bytes{};
  while (const size_t count = fread(bytes.data(), 1, bytes.size(), pipe))
    run.output.append(bytes.data(), count);
  const int status = pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return run;
}

}  // namespace plimsoll::runtime
