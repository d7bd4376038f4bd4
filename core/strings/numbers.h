// Numbers from text, as TensorFlow reads them: spaces around and a plus sign are fine, anything else after it is not.
#pragma once

#include <charconv>
#include <clocale>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

namespace thalweg {

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// False if the text is no number, or an integer out of range. Floats overflow to infinity.
template <typename T>
bool parse_number(std::string_view text, T* out) {
  const char *begin = text.data(), *end = begin + text.size();
  // Most numbers are plain: no spaces, no plus.
  if (auto [stop, error] = std::from_chars(begin, end, *out); error == std::errc() && stop == end) return true;
  text = trimmed(text);
  if (text.empty()) return false;
  if constexpr (std::is_integral_v<T>) {
    if (text.front() == '+') {
      text.remove_prefix(1);
      if (text.starts_with('-')) return false;
    }
    auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
    return error == std::errc() && stop == text.data() + text.size();
  } else {
    // The C library's reader in the C locale: from_chars knows neither "+1" nor hexadecimal, and refuses overflow.
    static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    std::string terminated(text);
    char* stop = nullptr;
    if constexpr (std::is_same_v<T, float>)
      *out = strtof_l(terminated.c_str(), &stop, locale);
    else
      *out = strtod_l(terminated.c_str(), &stop, locale);
    return stop == terminated.c_str() + terminated.size();
  }
}

}  // namespace thalweg
