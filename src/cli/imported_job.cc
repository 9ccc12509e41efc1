#include "cli/imported_job.h"

#include "importers/torchtitan/torchtitan_config.h"

namespace plimsoll {
namespace {

Result<ImportedJob> from_torchtitan(const std::string& file) {
  PLIMSOLL_TRY(read, read_torchtitan_config(file));
  return ImportedJob{.job = std::move(read.job), .notes = std::move(read.notes)};
}

struct FileKind {
  std::string_view ending;
  Result<ImportedJob> (*read)(const std::string& file);
};
constexpr FileKind kKinds[] = {{".toml", from_torchtitan}};

}  // namespace

Result<ImportedJob> read_foreign_job(const std::string& file) {
  for (const FileKind& kind : kKinds)
    if (file.ends_with(kind.ending)) return kind.read(file);
  return fail({.position = {.file = file},
               .message = "is no configuration that is known here",
               .expected = "a configuration of torchtitan, NAME.toml"});
}

}  // namespace plimsoll
