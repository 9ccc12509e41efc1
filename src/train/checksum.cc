#include "train/checksum.h"

#include <fmt/format.h>
#include <zlib.h>

namespace plimsoll {

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

std::string checksum_text(uint32_t sum) { return fmt::format("{:08x}", sum); }

}  // namespace plimsoll
