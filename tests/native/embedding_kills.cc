// A process that is killed while it trains, evicts, moves rows to disk, saves changes and merges them loses no row that
// an acknowledged checkpoint held. THALWEG_KILL_ROUNDS says how often it is killed.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "check.h"
#include "embedding/checkpoint.h"
#include "embedding/table.h"
#include "embedding_fixture.h"

namespace {

using namespace thalweg;
using namespace embedding_tests;
using embedding::EmbeddingTable;

constexpr int64_t kRows = 600, kWindow = 60, kOnce = 1'000'000;
const std::string kKey = "t/rows-00000-of-00001";

embedding::Options small_memory(const std::string& folder) {
  embedding::Options out = options(4);
  out.eviction = {0, 4, 2, 0, 0};  // Rows with one update leave after four steps.
  out.ram_bytes = 64 * 16 * 3 * (16 + 32 + 6) / 16;
  out.folder = folder + "/disk";
  return out;
}

// The rows of step i, and one that never comes again. The first two steps have all rows.
std::vector<int64_t> keys_of_step(int64_t i) {
  std::vector<int64_t> keys;
  for (int64_t k = 0; k < (i < 2 ? kRows : kWindow); ++k) keys.push_back((k + i * 37) % kRows);
  keys.push_back(kOnce + i);
  return keys;
}

// The step of the latest checkpoint, or -1, and its files.
int64_t latest(const std::string& folder, std::vector<std::string>* paths) {
  std::ifstream list(folder + "/latest");
  int64_t step = -1;
  std::string line;
  if (!(list >> step)) return -1;
  std::getline(list, line);
  while (std::getline(list, line))
    paths->push_back(folder + "/m-" + std::to_string(step) + "." + line.substr(0, line.find('\t')));
  return step;
}

// Goes on with training, and writes the number of each step to the pipe when its checkpoint is there.
[[noreturn]] void train(const std::string& folder, int out) {
  auto table = std::make_shared<EmbeddingTable>("t", small_memory(folder));
  std::vector<std::string> paths;
  int64_t step = latest(folder, &paths);
  table->initialize();
  if (step >= 0) table->load(paths, 0, 1, true);
  for (;;) {
    ++step;
    const auto keys = keys_of_step(step);
    const std::vector<float> ones(keys.size() * 4, 1.0f);
    table->apply(keys_of(keys), ones.data(), kSlot, kAdd);
    table->prefetch(keys_of(keys_of_step(step + 1)));
    if (step % 8 == 7) table->evict(table->options().eviction);
    const std::string prefix = folder + "/m-" + std::to_string(step);
    const std::string list = embedding::save_checkpoint(table, prefix, kKey, false);
    std::ofstream(folder + "/new") << step << "\n" << list;
    std::filesystem::rename(folder + "/new", folder + "/latest");
    if (write(out, &step, sizeof(step)) != sizeof(step)) _exit(1);
    // Older checkpoints go, as a Saver removes them.
    const std::string old = "m-" + std::to_string(step - 2) + ".";
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().filename().string().starts_with(old)) std::filesystem::remove(entry.path());
  }
}

void check_latest(const std::string& folder, int64_t acknowledged) {
  std::vector<std::string> paths;
  const int64_t step = latest(folder, &paths);
  CHECK(step >= acknowledged);
  if (step < 0) return;
  EmbeddingTable table("t", options(4));
  table.load(paths, 0, 1, true);
  std::vector<float> expected(kRows, 0.0f);
  for (int64_t i = 0; i <= step; ++i)
    for (int64_t key : keys_of_step(i))
      if (key < kRows) expected[static_cast<size_t>(key)] += 1;
  const auto rows = look_up(table, keys_of(range(0, kRows)));
  for (size_t i = 0; i < rows.size(); ++i) CHECK_EQUAL(rows[i], expected[i / 4]);
  for (float x : look_up(table, keys_of(range(kOnce + std::max<int64_t>(step - 3, 0), kOnce + step + 1))))
    CHECK_EQUAL(x, 1.0f);
  // Rows that were evicted have not come back from older files.
  CHECK(table.statistics().rows <= kRows + 64);
}

TEST(a_killed_process_keeps_what_it_acknowledged) {
#ifdef __SANITIZE_THREAD__
  return;  // The sanitizer does not support threads in the child of a process with threads.
#endif
  const char* asked = std::getenv("THALWEG_KILL_ROUNDS");
  const int rounds = asked == nullptr ? 12 : std::atoi(asked);
  Folder folder;
  int64_t acknowledged = -1;
  for (int round = 0; round < rounds; ++round) {
    int ends[2];
    CHECK_EQUAL(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ends[0]);
      train(folder.path, ends[1]);
    }
    close(ends[1]);
    // Some steps, and then some part of one.
    auto next = [&] { return read(ends[0], &acknowledged, sizeof(acknowledged)) == sizeof(acknowledged); };
    const uint64_t random = combine64(static_cast<uint64_t>(round), 11);
    for (uint64_t i = 0; i < random % 30 && next(); ++i) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds((random >> 32) % 8000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (next()) {
    }
    close(ends[0]);
    check_latest(folder.path, acknowledged);
  }
  CHECK(acknowledged > rounds);
}

}  // namespace
