// The bytes that a gzip file holds: one or more members, one after the other. From kAheadFrom bytes on a
// thread decompresses ahead of the reader (importers/read_ahead.h).
#pragma once

#include <memory>

#include "importers/byte_source.h"
#include "importers/input_stream.h"

namespace plimsoll {

std::unique_ptr<ByteSource> gzip_source(InputStream file);

}  // namespace plimsoll
