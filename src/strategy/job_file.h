// Reading and writing of job files (TOML; docs/job_file.md lists the fields) and of `--set a.b=c`.
//
//   Result<Job> job = read_job_file("job.toml");
//   Result<void> done = apply_setting(*job, "batch.sequence=8192");
//   std::string text = to_toml(*job);                  // parse_job(text) gives the same job
//
// A file is at most kMaxJobFileBytes (strategy/limits.h) of UTF-8. Every mistake of a file is reported, not
// only the first one. Keys that are not fields are mistakes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "strategy/job.h"

namespace plimsoll {

Result<Job> read_job_file(const std::filesystem::path& path);
Result<Job> parse_job(std::string_view toml, std::string file);  // `file` is for messages

// "batch.sequence=8192". The value of "model.overrides.KEY" is TOML, or plain text when it isn't; null is
// JSON's null. `source` names the flag in messages.
Result<void> apply_setting(Job& job, std::string_view assignment, std::string_view source = "--set");
Result<void> apply_setting(Job& job, std::string_view path, std::string_view value, std::string_view source);

// Every field that was given or differs from its default, in the order of the table. REQUIRES overrides that
// are JSON (those that were read are).
std::string to_toml(const Job& job);

}  // namespace plimsoll
