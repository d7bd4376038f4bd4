// Embedding tables with rows on disk: which leave, what damage does, and moving averages.
#include <fcntl.h>
#include <sys/uio.h>

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "check.h"
#include "embedding/cold_rows.h"
#include "embedding/segment_file.h"
#include "embedding/table.h"
#include "embedding_fixture.h"

namespace {

using namespace thalweg;
using namespace embedding_tests;
using embedding::EmbeddingTable;
using embedding::Options;

// With room for some 16 rows a shard; 64 shards, or one if there are few rows at most.
Options tiered(int64_t dim, const Folder& folder) {
  Options out = options(dim);
  out.ram_bytes = 1;
  out.folder = folder.path;
  return out;
}

// Writes over the files without a name that a table has in the folder.
void damage_files(const Folder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.find(folder.path) != 0) continue;
    const int fd = open(entry.path().c_str(), O_WRONLY);
    const std::string garbage(1 << 20, 'x');
    CHECK(pwrite(fd, garbage.data(), garbage.size(), 0) > 0);
    close(fd);
  }
}

std::vector<float> ones(size_t n) { return std::vector<float>(n, 1.0f); }

TEST(rows_on_disk_leave_by_age_count_and_norm) {
  Folder folder;
  for (int rule = 0; rule < 3; ++rule) {
    Options leaving = tiered(1, folder);
    if (rule == 0) leaving.eviction.steps_to_live = 50;
    if (rule == 1) leaving.eviction.min_count = 2;
    if (rule == 2) leaving.eviction.min_norm = 1.5f;
    EmbeddingTable table("t", leaving);
    table.initialize();
    for (int64_t i = 0; i < 5000; i += 100) table.apply(keys_of(range(i, i + 100)), ones(100).data(), kSlot, kAdd);
    CHECK(table.statistics().disk_rows > 3000);
    for (int i = 0; i < 60; ++i) table.apply(keys_of({-1}), ones(1).data(), kSlot, kAdd);
    table.evict(leaving.eviction);
    CHECK_EQUAL(table.statistics().rows, 1);
    for (float x : look_up(table, keys_of(range(0, 5000)))) CHECK_EQUAL(x, 0.0f);
  }
}

TEST(updates_find_rows_on_disk_that_have_outlived) {
  Folder folder;
  Options leaving = tiered(1, folder);
  leaving.eviction.steps_to_live = 50;
  EmbeddingTable table("t", leaving);
  table.initialize();
  for (int64_t i = 0; i < 3000; i += 100) table.apply(keys_of(range(i, i + 100)), ones(100).data(), kSlot, kAdd);
  CHECK(table.statistics().disk_rows > 1000);
  for (int i = 0; i < 20000 && table.statistics().rows > 1; ++i)
    table.apply(keys_of({-1}), ones(1).data(), kSlot, kAdd);
  CHECK_EQUAL(table.statistics().rows, 1);
}

TEST(the_most_rows_include_those_on_disk_and_the_frequent_ones_stay) {
  Folder folder;
  Options few = tiered(1, folder);
  few.eviction.max_rows = 200;  // one shard
  EmbeddingTable table("t", few);
  table.initialize();
  for (int64_t i = 0; i < 3000; ++i) {
    if (i < 300) table.apply(keys_of(range(-10, 0)), ones(10).data(), kSlot, kAdd);
    table.apply(keys_of({i}), ones(1).data(), kSlot, kAdd);
    CHECK(table.statistics().rows <= 200);
  }
  CHECK(table.statistics().disk_rows > 100);
  // They were not updated for long, so they are on disk; but they were updated 300 times.
  for (float x : look_up(table, keys_of(range(-10, 0)))) CHECK_EQUAL(x, 300.0f);
  embedding::Eviction fewer = few.eviction;
  fewer.max_rows = 20;
  table.evict(fewer);
  CHECK_EQUAL(table.statistics().rows, 20);
  for (float x : look_up(table, keys_of(range(-10, 0)))) CHECK_EQUAL(x, 300.0f);
}

TEST(a_damaged_row_on_disk_is_an_error_and_never_another_row) {
  Folder folder;
  EmbeddingTable table("t", tiered(1, folder));
  table.initialize();
  for (int64_t i = 0; i < 20000; i += 100) {
    std::vector<float> values;
    for (int64_t k = i; k < i + 100; ++k) values.push_back(static_cast<float>(k));
    table.apply(keys_of(range(i, i + 100)), values.data(), kSlot, kAdd);
  }
  damage_files(folder);
  // Removing rows compacts the files, as far as their records can be read.
  for (int64_t i = 0; i < 20000; ++i) {
    if (i % 8 == 0) continue;
    try {
      table.remove(keys_of({i}));
    } catch (const Error& error) {
      CHECK_EQUAL(static_cast<int>(error.code()), static_cast<int>(Code::data_loss));
    }
  }
  table.apply(keys_of(range(50000, 60000)), ones(10000).data(), kSlot, kAdd);
  int64_t errors = 0;
  for (int64_t i = 0; i < 20000; ++i) {
    try {
      const float found = look_up(table, keys_of({i}))[0];
      CHECK(found == static_cast<float>(i) || found == 0.0f);
      if (i % 8 == 0) CHECK_EQUAL(found, static_cast<float>(i));
    } catch (const Error& error) {
      CHECK_EQUAL(static_cast<int>(error.code()), static_cast<int>(Code::data_loss));
      ++errors;
    }
  }
  CHECK(errors > 1000);
}

TEST(compacting_a_damaged_file_keeps_free_places_and_rows_apart) {
  Folder folder;
  const embedding::RowLayout layout(options(4));
  embedding::ColdRows cold(folder.path, false, layout.stride());
  std::string row(layout.stride(), '\0');
  auto add_row = [&](int64_t i) {
    embedding::RowLayout::header(row.data()).key = static_cast<uint64_t>(i);
    cold.add(embedding::key_of(i), row.data(), 1);
  };
  for (int64_t i = 0; i < 5000; ++i) add_row(i);
  for (int64_t i = 0; i < 4000; ++i)
    if (i % 10 != 0) cold.erase(embedding::key_of(i));
  // The record of row 4500 will stop the rows behind it from moving down.
  const auto damaged = static_cast<off_t>(4500 * (layout.stride() + 8));
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    if (std::filesystem::read_symlink(entry.path(), ignored).string().find(folder.path) != 0) continue;
    const int fd = open(entry.path().c_str(), O_WRONLY);
    CHECK_EQUAL(pwrite(fd, "????", 4, damaged), 4);
    close(fd);
  }
  cold.compact();
  for (int64_t i = 10000; i < 14000; ++i) add_row(i);
  for (int64_t i = 0; i < 14000; ++i) {
    const uint32_t place = cold.find(embedding::key_of(i));
    const bool kept = i < 4000 ? i % 10 == 0 : i < 5000 || i >= 10000;
    CHECK_EQUAL(place != embedding::ColdRows::kNone, kept);
    if (!kept) continue;
    if (i == 4500)
      CHECK_FAILS(Code::data_loss, "checksum", cold.read(place, embedding::key_of(i), row.data()));
    else
      cold.read(place, embedding::key_of(i), row.data());
  }
}

TEST(rows_that_come_and_go_keep_their_bytes_and_the_file_its_size) {
  Folder folder;
  const embedding::RowLayout layout(options(16));
  embedding::ColdRows cold(folder.path, false, layout.stride());
  std::string row(layout.stride(), '\0');
  std::map<int64_t, char> there;
  int64_t next = 0;
  for (uint64_t i = 0; i < 60000; ++i) {
    if (there.size() < 3000) {
      embedding::RowLayout::header(row.data()).key = static_cast<uint64_t>(next);
      row.back() = static_cast<char>(i);
      cold.add(embedding::key_of(next), row.data(), 1);
      there[next++] = static_cast<char>(i);
      continue;
    }
    auto leaving = there.lower_bound(static_cast<int64_t>(combine64(i, 1) % static_cast<uint64_t>(next)));
    if (leaving == there.end()) leaving = there.begin();
    const embedding::Key key = embedding::key_of(leaving->first);
    cold.read(cold.find(key), key, row.data());
    CHECK_EQUAL(row.back(), leaving->second);
    cold.erase(key);
    there.erase(leaving);
  }
  CHECK_EQUAL(cold.rows(), static_cast<int64_t>(there.size()));
  CHECK(cold.file_bytes() < 3000 * 2 * static_cast<int64_t>(layout.stride() + 8));
}

TEST(look_ups_between_updates_bring_rows_back_and_others_do_not) {
  Folder folder;
  EmbeddingTable table("t", tiered(1, folder));
  table.initialize();
  for (int64_t i = 0; i < 5000; i += 100) table.apply(keys_of(range(i, i + 100)), ones(100).data(), kSlot, kAdd);
  const auto before = table.statistics();
  CHECK(before.disk_rows > 3000);
  for (float x : look_up(table, keys_of(range(0, 100)))) CHECK_EQUAL(x, 1.0f);
  const int64_t came_back = table.statistics().promotions - before.promotions;
  CHECK(came_back > 0);
  // The update finds them in memory.
  table.apply(keys_of(range(0, 100)), ones(100).data(), kSlot, kAdd);
  for (int i = 0; i < 20; ++i) look_up(table, keys_of(range(0, 100)));
  const auto training = table.statistics();
  for (int64_t i = 0; i < 5000; i += 100) look_up(table, keys_of(range(i, i + 100)));
  CHECK_EQUAL(table.statistics().promotions, training.promotions);
  CHECK_EQUAL(table.statistics().rows, 5000);
}

// Whether the file system says which bytes are in memory; where it does not, all rows count as being on the disk.
bool tells_what_is_in_memory(const Folder& folder) {
  const std::string path = folder.path + "/try";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  char byte = 'x';
  const iovec piece = {&byte, 1};
  const bool tells = pwrite(fd, &byte, 1, 0) == 1 && preadv2(fd, &piece, 1, 0, RWF_NOWAIT) == 1;
  close(fd);
  return tells;
}

TEST(a_large_batch_whose_rows_are_in_the_systems_memory_is_left_to_its_look_up) {
  Folder folder;
  EmbeddingTable table("t", tiered(2, folder));
  table.initialize();
  for (int64_t i = 0; i < 20000; i += 100) table.apply(keys_of(range(i, i + 100)), ones(200).data(), kSlot, kAdd);
  const int64_t before = table.statistics().promotions;
  const bool tells = tells_what_is_in_memory(folder);
  table.prefetch(keys_of(range(0, 10000)));
  table.prefetch(keys_of(range(0, 200)));  // A small one is fetched, when the other is done with.
  while (table.statistics().promotions == before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (tells) CHECK(table.statistics().promotions - before <= 200);
  for (float x : look_up(table, keys_of(range(0, 10000)))) CHECK_EQUAL(x, 1.0f);
}

TEST(a_cut_has_each_row_once_while_rows_come_back_from_disk) {
  Folder folder;
  EmbeddingTable table("t", tiered(2, folder));
  table.initialize();
  for (int64_t i = 0; i < 6000; i += 100) table.apply(keys_of(range(i, i + 100)), ones(200).data(), kSlot, kAdd);
  std::atomic<bool> stop{false};
  std::thread updates([&] {
    for (uint64_t i = 0; !stop; ++i) {
      std::vector<int64_t> some(64);
      for (size_t k = 0; k < some.size(); ++k) some[k] = static_cast<int64_t>(combine64(i, k) % 6000);
      table.apply(keys_of(some), ones(128).data(), kSlot, kAdd);
      table.prefetch(keys_of(some));
    }
  });
  for (int round = 0; round < 5; ++round) {
    const std::string path = folder.path + "/all" + std::to_string(round);
    {
      std::lock_guard lock(table.saving);
      CHECK_EQUAL(table.save(true, path).rows, 6000);
    }
    std::map<uint64_t, int> seen;
    embedding::SegmentReader reader(path);
    embedding::Record record;
    while (reader.next(&record)) ++seen[record.key.id];
    CHECK_EQUAL(seen.size(), size_t{6000});
  }
  stop = true;
  updates.join();
}

TEST(removals_that_nobody_saves_do_not_pile_up) {
  Folder folder;
  EmbeddingTable table("t", options(1));
  table.initialize();
  const std::vector<std::string> paths = {folder.path + "/base", folder.path + "/next", folder.path + "/last"};
  table.apply(keys_of(range(0, 100)), ones(100).data(), kSlot, kAdd);
  std::unique_lock lock(table.saving);
  table.save(true, paths[0]);
  for (int64_t i = 0; i < 200000; i += 1000) {
    table.apply(keys_of(range(1000 + i, 2000 + i)), ones(1000).data(), kSlot, kAdd);
    table.remove(keys_of(range(1000 + i, 2000 + i)));
  }
  table.remove(keys_of({5}));
  const embedding::Segment next = table.save(false, paths[1]);
  CHECK(next.full);
  CHECK_EQUAL(next.rows, 99);
  table.remove(keys_of({6}));
  const embedding::Segment last = table.save(false, paths[2]);
  CHECK(!last.full);
  CHECK_EQUAL(last.removed, 1);
}

// What an ordinary variable's shadow would be.
struct Shadow {
  double value = 0, average = 0;
  void move(double decay) { average = decay * average + (1 - decay) * value; }
};

TEST(averages_are_those_of_ordinary_variables_in_memory_and_on_disk) {
  Folder folder;
  for (const bool on_disk : {false, true}) {
    EmbeddingTable table("t", on_disk ? tiered(2, folder) : options(2));
    table.initialize();
    std::vector<Shadow> expected(3000);
    const Tensor all = keys_of(range(0, 3000));
    for (int64_t i = 0; i < 3000; i += 100)
      table.apply(keys_of(range(i, i + 100)), std::vector<float>(200, 0.0f).data(), kSlot, kAdd);
    CHECK_EQUAL(table.statistics().disk_rows > 1000, on_disk);
    for (uint64_t step = 0; step < 40; ++step) {
      std::vector<int64_t> some;
      for (int64_t k = 0; k < 3000; ++k)
        if (combine64(step, static_cast<uint64_t>(k)) % 5 == 0) some.push_back(k);
      table.apply(keys_of(some), ones(2 * some.size()).data(), kSlot, kAdd);
      for (int64_t k : some) expected[static_cast<size_t>(k)].value += 1;
      const double decay = step % 7 == 3 ? 0.5 : 0.9;
      table.average("average", decay);
      // The first averaging begins with the values.
      for (Shadow& shadow : expected) step == 0 ? void(shadow.average = shadow.value) : shadow.move(decay);
    }
    auto agree = [&](EmbeddingTable& found) {
      const auto averages = look_up(found, all, "average"), values = look_up(found, all);
      for (size_t k = 0; k < expected.size(); ++k) {
        CHECK(std::abs(averages[2 * k] - expected[k].average) < 1e-4);
        CHECK_EQUAL(values[2 * k], static_cast<float>(expected[k].value));
      }
    };
    agree(table);
    // Saved in two pieces, and restored; as values, too.
    const std::vector<std::string> paths = {folder.path + "/base", folder.path + "/delta"};
    {
      std::lock_guard lock(table.saving);  // The table has all its slots: none of these takes it.
      table.save(true, paths[0]);
      table.apply(keys_of({1, 2}), ones(4).data(), kSlot, kAdd);
      for (size_t k : {size_t{1}, size_t{2}}) expected[k].value += 1;
      table.average("average", 0.5);
      for (Shadow& shadow : expected) shadow.move(0.5);
      table.save(false, paths[1]);
    }
    EmbeddingTable restored("r", options(2)), averaged("a", options(2));
    restored.load(paths, 0, 1, true);
    agree(restored);
    averaged.load(paths, 0, 1, true, "average");
    const auto values = look_up(averaged, all);
    for (size_t k = 0; k < expected.size(); ++k) CHECK(std::abs(values[2 * k] - expected[k].average) < 1e-4);
    CHECK_FAILS(Code::not_found, "no moving average 'sum'", averaged.load(paths, 0, 1, true, "sum"));
  }
}

TEST(many_threads_use_a_table_with_rows_on_disk_while_another_follows_it) {
  // All elements of a row, and of its slot, are equal at all times.
  Folder folder;
  Options busy = tiered(16, folder);
  busy.eviction.steps_to_live = 200;
  busy.eviction.max_rows = 4096;
  EmbeddingTable table("t", busy), follower("f", options(16));
  table.initialize();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  auto check_rows = [&](EmbeddingTable& found, const std::vector<int64_t>& keys) {
    for (const char* average : {"", "average"}) {
      const auto rows = look_up(found, keys_of(keys), average);
      for (size_t k = 0; k < keys.size(); ++k)
        for (size_t j = 1; j < 16; ++j)
          if (rows[k * 16 + j] != rows[k * 16]) ++wrong;
    }
  };
  auto some = [](uint64_t seed) {
    std::vector<int64_t> keys(48);
    for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<int64_t>(combine64(seed, k) % 6000);
    return keys;
  };
  std::vector<std::thread> threads;
  auto repeat = [&](auto body) {
    threads.emplace_back([&stop, body] {
      for (uint64_t i = 0; !stop; ++i) body(i);
    });
  };
  repeat([&](uint64_t i) { table.apply(keys_of(some(i)), ones(48 * 16).data(), kSlot, kAdd); });
  repeat([&](uint64_t i) { table.apply(keys_of(some(~i)), ones(48 * 16).data(), kSlot, kAdd); });
  repeat([&](uint64_t i) { check_rows(table, some(i * 3)); });
  repeat([&](uint64_t i) { table.prefetch(keys_of(some(i))); });
  repeat([&](uint64_t i) {
    table.insert(keys_of(some(i * 7)), ones(48 * 16).data());
    table.remove(keys_of(some(i * 5)));
    if (i % 16 == 0) table.average("average", 0.9);
    if (i % 64 == 0) table.evict(busy.eviction);
    if (i % 64 == 32) table.export_rows({});
    if (table.statistics().rows > 4096) ++wrong;
  });
  repeat([&](uint64_t i) {
    if (follower.initialized()) check_rows(follower, some(i));
    follower.statistics();
  });
  std::vector<std::string> paths;
  for (int i = 0; i < 12; ++i) {
    paths.push_back(folder.path + "/s" + std::to_string(i));
    const bool full = i % 4 == 0;
    {
      std::lock_guard lock(table.saving);
      table.save(full, paths.back());
    }
    follower.load({{paths.back()}}, 0, 1, full);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(wrong.load(), 0);
}

}  // namespace
