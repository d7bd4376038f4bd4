// Rendezvous keys as text.
#include "executor/rendezvous_key.h"

#include <array>
#include <charconv>

#include "error.h"

namespace thalweg {
namespace {

constexpr size_t kHexDigits = 16;

std::string hex(uint64_t number) {
  std::string out(kHexDigits, '0');
  for (size_t i = kHexDigits; i-- > 0; number >>= 4) out[i] = "0123456789abcdef"[number & 15];
  return out;
}

// Untrusted text, cut to a line of printable characters for an error message.
std::string quoted(std::string_view text) {
  constexpr size_t kMost = 80;
  std::string out = "'";
  for (char c : text.substr(0, kMost)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kMost ? "...'" : "'");
}

bool is_device(std::string_view name) { return name.empty() || name.front() == '/'; }

[[noreturn]] void refuse(std::string_view transfer, std::string_view why) {
  fail(Code::invalid_argument, quoted(transfer), " is not a rendezvous key: ", why);
}

// A number in its only spelling: no sign, no leading zero, nothing after it.
template <typename Number>
bool read_decimal(std::string_view text, Number& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  if (text.front() == '0' && text.size() > 1) return false;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_hex(std::string_view text, uint64_t& number) {
  if (text.size() != kHexDigits) return false;
  for (char c : text)
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) return false;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return true;
}

}  // namespace

RendezvousKey::RendezvousKey(std::string_view source, uint64_t incarnation, std::string_view destination,
                             std::string_view tensor) {
  for (std::string_view name : {source, destination, tensor})
    require(name.find(';') == std::string_view::npos, quoted(name), " has a ';', which separates the parts of a key");
  for (std::string_view name : {source, destination})
    require(is_device(name), quoted(name), " is not the full name of a device");
  auto parts = std::make_shared<Parts>();
  parts->name = cat(source, ";", hex(incarnation), ";", destination, ";", tensor);
  parts->incarnation = incarnation;
  const std::string_view all = parts->name;
  parts->source = all.substr(0, source.size());
  parts->destination = all.substr(source.size() + 2 + kHexDigits, destination.size());
  parts->tensor = all.substr(all.size() - tensor.size());
  hash_ = fnv1a64(parts->name);
  parts_ = std::move(parts);
}

std::string RendezvousKey::transfer(FrameIteration at) const { return cat(name(), ";", at.frame, ":", at.iteration); }

std::pair<RendezvousKey, FrameIteration> RendezvousKey::parse(std::string_view transfer) {
  if (transfer.size() > kLongestTransfer) refuse(transfer, "it is too long");
  std::array<std::string_view, 5> fields;
  std::string_view rest = transfer;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = rest.find(';');
    if ((end == std::string_view::npos) != (i + 1 == fields.size()))
      refuse(transfer, "it does not have five parts separated by ';'");
    fields[i] = rest.substr(0, end);
    if (end != std::string_view::npos) rest.remove_prefix(end + 1);
  }
  const auto [source, incarnation, destination, tensor, where] = fields;
  if (!is_device(source) || !is_device(destination)) refuse(transfer, "a device's name starts with '/'");
  if (tensor.empty()) refuse(transfer, "the tensor has no name");
  uint64_t number = 0;
  if (!read_hex(incarnation, number)) refuse(transfer, "an incarnation is 16 lower-case hexadecimal digits");
  FrameIteration at;
  const size_t colon = where.find(':');
  if (colon == std::string_view::npos || !read_decimal(where.substr(0, colon), at.frame) ||
      !read_decimal(where.substr(colon + 1), at.iteration))
    refuse(transfer, "it does not end with the numbers frame:iteration");
  return {RendezvousKey(source, number, destination, tensor), at};
}

}  // namespace thalweg
