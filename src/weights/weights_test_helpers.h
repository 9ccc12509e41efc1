// Files of safetensors for tests, byte by byte.
#pragma once

#include <string>

namespace plimsoll {

// A file of the format with any header.
inline std::string image_of(const std::string& json, const std::string& data) {
  std::string length;
  for (int i = 0; i < 8; ++i) length.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  return length + json + data;
}

}  // namespace plimsoll
