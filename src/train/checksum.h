// CRC-32 of bytes, as zlib and gzip have it, and its text: 8 hexadecimal digits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace plimsoll {

// Of bytes that follow others with the sum `before`; checksum(b, checksum(a)) is the sum of a and b.
uint32_t checksum(std::span<const std::byte> bytes, uint32_t before = 0);
std::string checksum_text(uint32_t sum);

}  // namespace plimsoll
