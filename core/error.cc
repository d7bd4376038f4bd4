// Errors, and putting their messages together.
#include "error.h"

#include <sstream>

namespace thalweg {

Error::Error(Code code, const std::string& message) : std::runtime_error(message), code_(code), message_(message) {}
Error::Error(const Error&) = default;
Error& Error::operator=(const Error&) = default;
Error::~Error() = default;

void MessagePart::write_text(std::ostream& out, const void* text) { out << static_cast<const char*>(text); }

std::string concatenated(std::initializer_list<MessagePart> parts) {
  std::ostringstream out;
  for (const MessagePart& part : parts) part.write(out);
  return out.str();
}

void throw_error(Code code, std::initializer_list<MessagePart> parts) { throw Error(code, concatenated(parts)); }

}  // namespace thalweg
