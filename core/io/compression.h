// Compression: how the bytes of a file are packed; the names that options and attributes use for it.
#pragma once

#include <string_view>

#include "error.h"

namespace thalweg {

enum class Compression { none, zlib, gzip };

// From "", "ZLIB" or "GZIP"; "NONE" is a spelling of "".
inline Compression compression_from_name(std::string_view name) {
  if (name.empty() || name == "NONE") return Compression::none;
  if (name == "ZLIB") return Compression::zlib;
  if (name == "GZIP") return Compression::gzip;
  fail(Code::invalid_argument, "Unsupported compression_type: '", name, "'. Choose '', 'ZLIB' or 'GZIP'.");
}

}  // namespace thalweg
