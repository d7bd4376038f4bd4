// A small frame for native tests: TEST defines one, CHECK... end it when they do not hold, check.cc has `main`.
//
// Only the thread that runs the test may check; other threads leave their results for it.
#pragma once

#include <functional>
#include <sstream>
#include <string>

#include "error.h"

namespace check {

struct Failure {
  std::string message;
};

// Registers a test under the name of its file.
struct Test {
  Test(const char* file, const char* name, std::function<void()> body);
};

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  throw Failure{thalweg::cat(file, ":", line, ": ", what)};
}

template <typename A, typename B>
void equal(const char* file, int line, const char* text, const A& a, const B& b) {
  if (!(a == b)) fail(file, line, thalweg::cat(text, ": ", a, " != ", b));
}

// Whether the code throws an Error with this code whose message has this text.
template <typename F>
void fails(const char* file, int line, thalweg::Code code, const std::string& text, const F& f) {
  try {
    f();
  } catch (const thalweg::Error& error) {
    if (error.code() != code || error.message().find(text) == std::string::npos)
      fail(file, line, thalweg::cat("failed with ", static_cast<int>(error.code()), " '", error.message(), "'"));
    return;
  }
  fail(file, line, "did not fail");
}

}  // namespace check

#define TEST(name)                                             \
  static void name();                                          \
  static const check::Test name##_test(__FILE__, #name, name); \
  static void name()
#define CHECK(condition) \
  if (!(condition)) check::fail(__FILE__, __LINE__, #condition)
#define CHECK_EQUAL(a, b) check::equal(__FILE__, __LINE__, #a " == " #b, a, b)
#define CHECK_FAILS(code, text, expression) check::fails(__FILE__, __LINE__, code, text, [&] { (void)(expression); })
