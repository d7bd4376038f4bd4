// Embedding tables: rows, admission, eviction and cuts under many threads; readers never see half a row.
#include <atomic>
#include <thread>

#include "check.h"
#include "embedding/cold_rows.h"
#include "embedding/segment_file.h"
#include "embedding/table.h"
#include "embedding_fixture.h"

namespace {

using namespace thalweg;
using embedding::EmbeddingTable;
using embedding::Options;

using namespace embedding_tests;

TEST(rows_appear_with_updates_and_equal_keys_are_summed) {
  EmbeddingTable table("t", options(2));
  CHECK_FAILS(Code::failed_precondition, "not initialized", look_up(table, keys_of({1})));
  table.initialize();
  CHECK_EQUAL(look_up(table, keys_of({7}))[0], 0.0f);
  CHECK_EQUAL(table.statistics().rows, 0);
  const float gradients[] = {1, 2, 3, 4, 5, 6};
  table.apply(keys_of({7, -9, 7}), gradients, kSlot, kAdd);
  CHECK_EQUAL(table.statistics().rows, 2);
  auto rows = look_up(table, keys_of({-9, 7, 8}));
  CHECK((rows == std::vector<float>{3, 4, 6, 8, 0, 0}));
}

TEST(first_values_do_not_depend_on_the_order_of_arrival) {
  Options normal = options(5);
  normal.first = {embedding::FirstValue::Kind::normal, 0, 1, 42};
  EmbeddingTable a("a", normal), b("b", normal);
  a.initialize();
  b.initialize();
  const std::vector<float> zeros(5 * 100, 0.0f);
  std::vector<int64_t> forward(100), backward(100);
  for (int i = 0; i < 100; ++i) forward[i] = backward[99 - i] = i * 1000003;
  a.apply(keys_of(forward), zeros.data(), kSlot, kAdd);
  b.apply(keys_of(backward), zeros.data(), kSlot, kAdd);
  CHECK(look_up(a, keys_of(forward)) == look_up(b, keys_of(forward)));
}

TEST(a_million_rows_take_at_most_24_bytes_beyond_value_and_slots) {
  EmbeddingTable table("t", options(4));
  table.initialize();
  std::vector<int64_t> keys(10000);
  const std::vector<float> gradients(keys.size() * 4, 1.0f);
  for (int64_t round = 0; round < 100; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = (round * 10000 + static_cast<int64_t>(i)) * 7919;
    table.apply(keys_of(keys), gradients.data(), kSlot, kAdd);
    const auto s = table.statistics();
    if (round > 5) CHECK(s.bytes <= s.rows * (24 + 2 * 16));
  }
  CHECK_EQUAL(table.statistics().rows, 1000000);
}

TEST(removing_rows_keeps_the_others_reachable) {
  EmbeddingTable table("t", options(1));
  table.initialize();
  std::vector<int64_t> keys(5000), odd, even;
  for (int64_t i = 0; i < 5000; ++i) {
    keys[i] = i;
    (i % 2 ? odd : even).push_back(i);
  }
  const std::vector<float> ones(5000, 1.0f);
  table.apply(keys_of(keys), ones.data(), kSlot, kAdd);
  table.remove(keys_of(odd));
  CHECK_EQUAL(table.statistics().rows, 2500);
  for (float x : look_up(table, keys_of(even))) CHECK_EQUAL(x, 1.0f);
  for (float x : look_up(table, keys_of(odd))) CHECK_EQUAL(x, 0.0f);
  table.apply(keys_of(odd), ones.data(), kSlot, kAdd);
  for (float x : look_up(table, keys_of(keys))) CHECK_EQUAL(x, 1.0f);
}

TEST(keys_are_admitted_at_their_third_occurrence) {
  Options filtered = options(1);
  filtered.admit_after = 3;
  filtered.filter_bytes = 1 << 16;
  EmbeddingTable table("t", filtered);
  table.initialize();
  const float one[] = {1};
  for (int64_t expected : {0, 0, 1, 1}) {
    table.apply(keys_of({5}), one, kSlot, kAdd);
    CHECK_EQUAL(table.statistics().rows, expected);
  }
  CHECK_EQUAL(look_up(table, keys_of({5}))[0], 2.0f);
  CHECK_EQUAL(table.statistics().rejections, 2);
}

TEST(rows_leave_by_age_count_norm_and_number) {
  const float ones[] = {1, 1, 1, 1};
  for (int rule = 0; rule < 3; ++rule) {
    Options leaving = options(1);
    if (rule == 0) leaving.eviction.steps_to_live = 3;
    if (rule == 1) leaving.eviction.min_count = 2;
    if (rule == 2) leaving.eviction.min_norm = 1.5f;
    EmbeddingTable table("t", leaving);
    table.initialize();
    table.apply(keys_of({1, 2}), ones, kSlot, kAdd);
    for (int i = 0; i < 3; ++i) table.apply(keys_of({2}), ones, kSlot, kAdd);
    table.evict(leaving.eviction);
    CHECK_EQUAL(look_up(table, keys_of({1}))[0], 0.0f);
    CHECK_EQUAL(look_up(table, keys_of({2}))[0], 4.0f);
    CHECK_EQUAL(table.statistics().evictions, 1);
  }
  Options few = options(1);
  few.eviction.max_rows = 100;
  EmbeddingTable table("t", few);
  table.initialize();
  for (int64_t i = 0; i < 1000; ++i) {
    table.apply(keys_of({1, 2, 3, 1000 + i}), ones, kSlot, kAdd);
    CHECK(table.statistics().rows <= 100);
  }
  for (float x : look_up(table, keys_of({1, 2, 3}))) CHECK_EQUAL(x, 1000.0f);
}

TEST(threads_that_look_up_update_evict_and_save_never_see_half_a_row) {
  Folder folder;
  Options busy = options(32);
  busy.eviction.max_rows = 2048;
  EmbeddingTable table("t", busy);
  table.initialize();
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      std::vector<int64_t> keys(64);
      const std::vector<float> ones(64 * 32, 1.0f);
      for (uint64_t i = 0; !stop; ++i) {
        for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<int64_t>(combine64(i, k + t) % 4096);
        table.apply(keys_of(keys), ones.data(), kSlot, kAdd);
      }
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      std::vector<int64_t> keys(256);
      for (uint64_t i = 0; !stop; ++i) {
        for (size_t k = 0; k < keys.size(); ++k) keys[k] = static_cast<int64_t>(combine64(i + 77, k + t) % 4096);
        auto rows = look_up(table, keys_of(keys));
        for (size_t k = 0; k < keys.size(); ++k)
          for (size_t j = 1; j < 32; ++j)
            if (rows[k * 32 + j] != rows[k * 32]) ++torn;
      }
    });
  threads.emplace_back([&] {
    while (!stop) table.remove(keys_of({1, 2, 3, 4, 5}));
  });
  for (int i = 0; i < 10; ++i) {
    std::lock_guard lock(table.saving);
    table.save(i % 2 == 0, folder.path + "/s" + std::to_string(i));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK_EQUAL(torn.load(), 0);
}

TEST(a_cut_has_the_rows_of_one_instant_while_updates_go_on) {
  // Every update adds one to all rows: a cut in which two rows differ by more than the one update under way is torn.
  Folder folder;
  EmbeddingTable table("t", options(8));
  table.initialize();
  std::vector<int64_t> keys(3000);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<int64_t>(i);
  const std::vector<float> ones(keys.size() * 8, 1.0f);
  table.apply(keys_of(keys), ones.data(), kSlot, kAdd);
  std::atomic<bool> stop{false};
  std::thread updates([&] {
    while (!stop) table.apply(keys_of(keys), ones.data(), kSlot, kAdd);
  });
  std::vector<std::string> paths;
  for (int i = 0; i < 8; ++i) {
    paths.push_back(folder.path + "/s" + std::to_string(i));
    std::lock_guard lock(table.saving);
    table.save(i == 0, paths.back());
  }
  stop = true;
  updates.join();
  for (size_t n = 1; n <= paths.size(); ++n) {
    EmbeddingTable copy("c", options(8));
    copy.load({paths.data(), n}, 0, 1, true);
    auto rows = look_up(copy, keys_of(keys));
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
    CHECK(*most - *least <= 1);
    CHECK(*least >= 1);
  }
  // Merged, they say the same.
  embedding::merge_segments(paths, folder.path + "/merged");
  EmbeddingTable all("a", options(8)), merged("m", options(8));
  all.load(paths, 0, 1, true);
  merged.load({{folder.path + "/merged"}}, 0, 1, true);
  CHECK(look_up(all, keys_of(keys)) == look_up(merged, keys_of(keys)));
}

TEST(deltas_carry_removals_and_a_damaged_byte_is_found) {
  Folder folder;
  EmbeddingTable table("t", options(2));
  table.initialize();
  const std::vector<float> ones(8, 1.0f);
  table.apply(keys_of({1, 2, 3, 4}), ones.data(), kSlot, kAdd);
  const std::vector<std::string> paths = {folder.path + "/base", folder.path + "/delta"};
  std::unique_lock lock(table.saving);
  table.save(true, paths[0]);
  table.remove(keys_of({2}));
  table.apply(keys_of({3}), ones.data(), kSlot, kAdd);
  const embedding::Segment delta = table.save(false, paths[1]);
  lock.unlock();
  CHECK_EQUAL(delta.rows, 1);
  CHECK_EQUAL(delta.removed, 1);
  EmbeddingTable copy("c", options(2));
  copy.load(paths, 0, 1, true);
  CHECK_EQUAL(copy.statistics().rows, 3);
  CHECK((look_up(copy, keys_of({1, 2, 3})) == std::vector<float>{1, 1, 0, 0, 2, 2}));
  // Every byte of a segment counts, and so does its end.
  std::string bytes = read_file(paths[1]);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    const std::string path = folder.path + "/damaged";
    FILE* file = fopen(path.c_str(), "wb");
    fwrite(damaged.data(), 1, damaged.size(), file);
    fclose(file);
    CHECK_FAILS(Code::data_loss, "damaged", copy.load({{path}}, 0, 1, false));
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = folder.path + "/short";
    FILE* file = fopen(path.c_str(), "wb");
    fwrite(bytes.data(), 1, size, file);
    fclose(file);
    CHECK_FAILS(Code::data_loss, "damaged", copy.load({{path}}, 0, 1, false));
  }
}

TEST(rows_beyond_the_budget_are_on_disk_and_keep_their_values) {
  Folder folder;
  for (DType kind : {DType::int64, DType::string}) {
    Options tiered = options(4);
    tiered.key = kind;
    tiered.ram_bytes = 64 * 16 * 60;  // some 16 rows a shard
    tiered.folder = folder.path;
    EmbeddingTable table("t", tiered);
    table.initialize();
    auto batch = [&](int64_t begin) {
      Tensor keys(kind, Shape{100});
      for (int64_t i = 0; i < 100; ++i) {
        if (kind == DType::string)
          keys.strings()[i] = "key " + std::to_string(begin + i);
        else
          keys.flat<int64_t>()[i] = begin + i;
      }
      return keys;
    };
    const std::vector<float> ones(400, 1.0f);
    for (int round = 0; round < 3; ++round)
      for (int64_t begin = 0; begin < 10000; begin += 100) table.apply(batch(begin), ones.data(), kSlot, kAdd);
    const auto s = table.statistics();
    CHECK_EQUAL(s.rows, 10000);
    CHECK(s.disk_rows > 8000);
    for (int64_t begin = 0; begin < 10000; begin += 100)
      for (float x : look_up(table, batch(begin))) CHECK_EQUAL(x, 3.0f);
    // All of them are in a checkpoint.
    std::unique_lock lock(table.saving);
    const auto segment = table.save(true, folder.path + "/all");
    CHECK_EQUAL(segment.rows, 10000);
    const auto nothing = table.save(false, folder.path + "/nothing");
    CHECK_EQUAL(nothing.rows, 0);
    lock.unlock();
    table.prefetch(batch(0));
    for (int i = 0; i < 1000 && table.statistics().promotions == s.promotions; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK(table.statistics().promotions > s.promotions);
    for (float x : look_up(table, batch(0))) CHECK_EQUAL(x, 3.0f);
  }
}

TEST(cold_rows_are_found_moved_and_checked) {
  Folder folder;
  Options plain = options(4);
  embedding::RowLayout layout(plain);
  embedding::ColdRows cold(folder.path, false, layout.stride());
  std::string row(layout.stride(), '\0');
  for (int64_t i = 0; i < 5000; ++i) {
    embedding::RowLayout::header(row.data()).key = static_cast<uint64_t>(i);
    row.back() = static_cast<char>(i);
    cold.add(embedding::key_of(i), row.data(), 1);
  }
  const int64_t before = cold.file_bytes();
  for (int64_t i = 0; i < 5000; ++i)
    if (i % 10 != 0) cold.erase(embedding::key_of(i));
  cold.compact();
  CHECK(cold.file_bytes() < before / 5);
  for (int64_t i = 0; i < 5000; ++i) {
    const uint32_t place = cold.find(embedding::key_of(i));
    CHECK_EQUAL(place == embedding::ColdRows::kNone, i % 10 != 0);
    if (i % 10 != 0) continue;
    cold.read(place, row.data());
    CHECK_EQUAL(embedding::RowLayout::header(row.data()).key, static_cast<uint64_t>(i));
    CHECK_EQUAL(row.back(), static_cast<char>(i));
  }
  CHECK_FAILS(Code::not_found, "/proc/nothing", embedding::ColdRows("/proc/nothing", false, 64));
}

TEST(reduced_precisions_come_near_the_value) {
  for (auto precision : {embedding::Precision::bfloat16, embedding::Precision::int8}) {
    Options reduced = options(64);
    reduced.precision = precision;
    reduced.first = {embedding::FirstValue::Kind::uniform, -1, 1, 3};
    EmbeddingTable table("t", reduced);
    table.initialize();
    auto first = look_up(table, keys_of({1}));
    const std::vector<float> zeros(64, 0.0f), small(64, 0.01f);
    table.apply(keys_of({1}), zeros.data(), kSlot, kAdd);
    for (int i = 0; i < 100; ++i) table.apply(keys_of({1}), small.data(), kSlot, kAdd);
    auto after = look_up(table, keys_of({1}));
    float sum = 0;
    for (size_t i = 0; i < 64; ++i) sum += after[i] - first[i];
    // Rounding at random keeps the mean of small steps, which rounding to nearest would lose.
    if (precision == embedding::Precision::int8) CHECK(std::abs(sum / 64 - 1.0f) < 0.15f);
  }
}

}  // namespace
