#include "cli/imported_job.h"

#include "importers/torchtitan/torchtitan_config.h"

namespace plimsoll {

bool is_torchtitan_file(const std::string& file) { return file.ends_with(".toml"); }

Result<ImportedJob> read_torchtitan_job(const std::string& file) {
  PLIMSOLL_TRY(read, read_torchtitan_config(file));
  return ImportedJob{.job = std::move(read.job), .notes = std::move(read.notes)};
}

}  // namespace plimsoll
