// What a checkpoint's state.json says: where the run was, and of what run.
//
//   {"format": "plimsoll.checkpoint/2", "step": 120, "samples": 960, "data_fingerprint": "9e3779b97f4a7c15",
//    "seed": 0, "global_batch": 8, "parameters": 12345, "optimizer": "adamw", "states": ["exp_avg",
//    "exp_avg_sq"], "ranks": 2, "zero_stage": 3, "precision": "fp32", "loss": 1.25, "job": "...",
//    "config_checksum": "8c736521", "checksum": "cbf43926"}
//
// The last member is the CRC-32 of all bytes of the file before its line, so that no number can change
// unseen. Format 1 had neither of the two checksums.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace plimsoll {

inline constexpr std::string_view kStateFile = "state.json";

struct CheckpointState {
  int64_t step = 0;              // optimizer steps done
  int64_t samples = 0;           // Sampler::position() of the next step
  std::string data_fingerprint;  // Corpus::fingerprint(), 16 hexadecimal digits
  int64_t seed = 0, global_batch = 0;
  int64_t parameters = 0;  // elements, tied ones once
  std::string optimizer;
  std::vector<std::string> states;  // the optimizer's: "exp_avg"
  int64_t ranks = 1;                // that wrote it: so many optimizer files
  int64_t zero_stage = 0;
  std::string precision;
  double loss = 0;              // of the last step
  std::string job;              // as a job file
  std::string config_checksum;  // CRC-32 of config.json

  int format = 2;  // as it was read; what is written has the newest
  bool has_checksums() const { return format >= 2; }

  friend bool operator==(const CheckpointState&, const CheckpointState&) = default;
};

std::string checkpoint_state_text(const CheckpointState& state);
// Errors: what is no such object; a format that this version doesn't read, before all else; another checksum
// than the text says; a number of samples that so many steps can't have seen.
Result<CheckpointState> parse_checkpoint_state(std::string_view json, const std::string& file);
Result<CheckpointState> read_checkpoint_state(const std::filesystem::path& folder);

}  // namespace plimsoll
