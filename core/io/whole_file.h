// Whole files: reading all bytes, writing all bytes; and the steps of writing a file. Errors name the path.
#pragma once

#include <string>
#include <string_view>

namespace thalweg {

// All bytes of a regular file, also of one whose size the system does not know beforehand.
std::string read_whole_file(const std::string& path);
// Replaces or creates a file, and the directories above it that are missing.
void write_whole_file(const std::string& path, std::string_view content);

// Opens a file for writing, new or emptied; returns its descriptor.
int create_file(const std::string& path);
void write_all(int fd, std::string_view content, const std::string& path);
void close_file(int fd, const std::string& path);

}  // namespace thalweg
