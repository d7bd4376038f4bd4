// Runs native tests: all of them, or those of the files that are named.
#include "check.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

namespace check {
namespace {

struct Entry {
  const char* name;
  std::function<void()> body;
};

std::map<std::string, std::vector<Entry>>& suites() {
  static std::map<std::string, std::vector<Entry>> all;
  return all;
}

// A test that hangs ends the process, and the last line of output says which one it was.
constexpr unsigned kMostSeconds = 100;

int run(const std::string& suite) {
  int failed = 0;
  for (const Entry& test : suites()[suite]) {
    std::printf("%s.%s: ", suite.c_str(), test.name);
    std::fflush(stdout);
    alarm(kMostSeconds);
    std::string problem;
    try {
      test.body();
    } catch (const Failure& failure) {
      problem = failure.message;
    } catch (const std::exception& exception) {
      problem = thalweg::cat("threw '", exception.what(), "'");
    }
    alarm(0);
    failed += !problem.empty();
    std::printf("%s\n", problem.empty() ? "ok" : ("FAILED " + problem).c_str());
  }
  return failed;
}

}  // namespace

Test::Test(const char* file, const char* name, std::function<void()> body) {
  std::string suite = std::strrchr(file, '/') != nullptr ? std::strrchr(file, '/') + 1 : file;
  suites()[suite.substr(0, suite.find('.'))].push_back({name, std::move(body)});
}

}  // namespace check

int main(int argc, char** argv) {
  int failed = 0, ran = 0;
  for (const auto& [suite, tests] : check::suites()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted |= suite == argv[i];
    if (!wanted) continue;
    failed += check::run(suite);
    ran += static_cast<int>(tests.size());
  }
  std::printf("%d tests, %d failed\n", ran, failed);
  return failed > 0 || ran == 0;
}
