// Whole files: reading all bytes, writing all bytes.
#pragma once

#include <string>
#include <string_view>

namespace thalweg {

// All bytes of a regular file, also of one whose size the system does not know beforehand.
std::string read_whole_file(const std::string& path);
// Replaces or creates a file, and the directories above it that are missing.
void write_whole_file(const std::string& path, std::string_view content);

}  // namespace thalweg
