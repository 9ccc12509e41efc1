// A training configuration of torchtitan (TOML, `--job.config_file`) as a job.
//
//   Result<TorchtitanJob> imported = read_torchtitan_config("llama3_8b.toml");
//   imported->job.batch.sequence;      // training.seq_len, or torchtitan's default
//   imported->notes;                   // which keys decided something, which were left, which aren't known
//
// Keys of three generations are read: those of 2024, of 0.1.0 and of 0.2.2. The configuration doesn't say how
// many GPUs there are unless every degree is given. Source: torchtitan/config_manager.py (0.1.0),
// torchtitan/config/job_config.py (0.2.2), torchtitan/models/*/__init__.py.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "hardware/toml_document.h"
#include "strategy/job.h"

namespace plimsoll {

struct TorchtitanJob {
  Job job;
  std::vector<std::string> notes;
};

// Errors: a value that isn't supported or of the wrong kind, two keys that contradict each other; with file,
// key and line.
Result<TorchtitanJob> read_torchtitan_config(const std::filesystem::path& file);
Result<TorchtitanJob> torchtitan_job(const TomlDocument& document);

}  // namespace plimsoll
