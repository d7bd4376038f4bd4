// Upper and lower case of UTF-8 text, by the Unicode Character Database: full mappings, such as "ß" to "SS".
#pragma once

#include <string>
#include <string_view>

namespace thalweg {

// Malformed bytes become U+FFFD. A final sigma is lower-cased as such. Thread-safe.
std::string changed_case(std::string_view text, bool upper);

}  // namespace thalweg
