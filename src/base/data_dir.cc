#include "base/data_dir.h"

#include <cstdlib>

namespace plimsoll {

std::filesystem::path data_dir() {
  const char* chosen = std::getenv("PLIMSOLL_DATA");
  if (chosen != nullptr && *chosen != '\0') return chosen;
  return PLIMSOLL_DATA_DIR;
}

}  // namespace plimsoll
