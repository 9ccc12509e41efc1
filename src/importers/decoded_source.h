// Text in UTF-16, as PowerShell's `>` and Tee-Object write logs and JSON, read as UTF-8, piece by piece. Told
// by its byte order mark, or without one by its zeros: in text of which a quarter is ASCII, every second byte
// of that quarter is zero and hardly any other.
//
//   source = decoded(std::move(source));   // of other text the same source, behind a UTF-8 mark if it has
//   one
//
// Half of a pair of surrogates becomes U+FFFD, half of a unit at the end is left out. Offsets of a decoded
// source count bytes of UTF-8.
#pragma once

#include <memory>
#include <string_view>

#include "importers/byte_source.h"

namespace plimsoll {

enum class TextEncoding : uint8_t { kUtf8, kUtf16LittleEndian, kUtf16BigEndian };

struct EncodingSign {
  TextEncoding encoding = TextEncoding::kUtf8;
  size_t mark_bytes = 0;  // of its byte order mark

  friend bool operator==(const EncodingSign&, const EncodingSign&) = default;
};

EncodingSign encoding_of(std::string_view first_bytes);
// REQUIRES the source isn't binary.
std::unique_ptr<ByteSource> decoded(std::unique_ptr<ByteSource> source);

}  // namespace plimsoll
