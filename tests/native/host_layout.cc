// Collective operations of groups with several members on several hosts: the order of summation, traffic, and
// departure.
#include "net/host_layout.h"

#include <cstring>

#include "collective_members.h"

namespace {

using namespace native_tests;
using Hosts = std::vector<std::string>;

const std::vector<Hosts> kLayouts = {{"a", "a", "b", "b"},      {"a", "a", "a", "b"},
                                     {"a", "b", "c", "c"},      {"a", "b", "a", "b"},
                                     {"a", "b", "b", "a", "b"}, {"b", "", "a", "a", "", "b", "b"},
                                     {"a", "a", "a"},           {"a", "b", "c"}};

// Within each host in the order of ranks, then over the hosts in the order of their first ranks.
Tensor sum_in_order(const Hosts& hosts, const std::vector<CollectiveCall>& calls) {
  std::vector<std::pair<std::string, Tensor>> sums;
  auto add = [](Tensor& to, const Tensor& more) {
    for (int64_t i = 0; i < more.num_elements(); ++i) to.flat<float>()[i] += more.flat<float>()[i];
  };
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    auto found = std::find_if(sums.begin(), sums.end(),
                              [&](const auto& each) { return !each.first.empty() && each.first == hosts[rank]; });
    if (found == sums.end())
      sums.emplace_back(hosts[rank], calls[rank].input.clone());
    else
      add(found->second, calls[rank].input);
  }
  for (size_t host = 1; host < sums.size(); ++host) add(sums[0].second, sums[host].second);
  return sums[0].second;
}

std::vector<CollectiveCall> calls_of(Collective kind, size_t size, int64_t count, uint64_t seed) {
  std::vector<CollectiveCall> calls;
  for (size_t rank = 0; rank < size; ++rank) calls.push_back(call_of(kind, random_values(count, seed * 100 + rank)));
  return calls;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

TEST(members_know_their_hosts_lanes_and_senders) {
  const HostLayout layout({"x", "y", "x", "", "y", "x", ""});
  CHECK_EQUAL(layout.num_hosts(), 4);
  CHECK(layout.members(0) == (std::vector<int>{0, 2, 5}));
  CHECK(layout.members(1) == (std::vector<int>{1, 4}));
  CHECK_EQUAL(layout.num_lanes(), 1);
  CHECK(layout.is_hierarchical());
  CHECK(!HostLayout({"x", "x"}).is_hierarchical());
  CHECK(!HostLayout({"x", "", ""}).is_hierarchical());
  CHECK(HostLayout({"x", "y"}).digest() == HostLayout({"", ""}).digest());
  CHECK(HostLayout({"x", "y"}).digest() != HostLayout({"x", "x"}).digest());
}

TEST(everybody_gets_each_message_once_and_each_host_too) {
  for (const Hosts& hosts : kLayouts) {
    const HostLayout layout(hosts);
    for (int origin = 0; origin < layout.size(); ++origin) {
      std::vector<int> crossings(layout.num_hosts());
      for (int to = 0; to < layout.size(); ++to) {
        if (to == origin) continue;
        const int from = layout.sender(origin, to);
        CHECK(layout.sends_to(from, to));
        CHECK(from == origin || (layout.share_host(from, to) && layout.sender(origin, from) == origin));
        if (!layout.share_host(from, to)) ++crossings[layout.host(to)];
      }
      for (int host = 0; host < layout.num_hosts(); ++host) CHECK_EQUAL(crossings[host], host != layout.host(origin));
    }
    std::vector<bool> owned(layout.num_chunks());
    for (int rank = 0; rank < layout.size(); ++rank) {
      if (layout.chunk(rank) < 0) continue;
      CHECK_EQUAL(layout.owner(layout.chunk(rank)), rank);
      owned[layout.chunk(rank)] = true;
    }
    CHECK(std::find(owned.begin(), owned.end(), false) == owned.end());
  }
}

TEST(sums_of_every_size_have_the_bits_of_the_order_of_hosts) {
  uint64_t seed = 0;
  for (const Hosts& hosts : kLayouts)
    for (const int64_t count : {0, 1, 17, 16384, 16385, 40001, 65536, 65537, 100003})
      for (int repeat = 0; repeat < 3; ++repeat) {
        const auto calls = calls_of(Collective::reduce, hosts.size(), count, ++seed);
        Members members(hosts, seed);
        members.run(calls);
        const Tensor expected = sum_in_order(hosts, calls);
        for (size_t rank = 0; rank < hosts.size(); ++rank) {
          CHECK(!members.errors[rank]);
          CHECK(same_bits(members.outputs[rank], expected));
          CHECK(members.runs[rank]->missing().empty());
        }
      }
}

TEST(means_are_divided_by_all_members_once) {
  for (const int64_t count : {10, 20000, 100000}) {
    auto calls = calls_of(Collective::reduce, 4, count, 5);
    for (auto& call : calls) call.header.divides = true;
    Tensor expected = sum_in_order({"a", "a", "b", "b"}, calls);
    for (int64_t i = 0; i < count; ++i) expected.flat<float>()[i] /= 4;
    Members members(Hosts{"a", "a", "b", "b"}, 5);
    members.run(calls);
    for (const Tensor& output : members.outputs) CHECK(same_bits(output, expected));
  }
}

TEST(reduce_scatter_has_the_rows_of_the_sum_in_the_same_order) {
  for (const Hosts& hosts : kLayouts) {
    const auto size = static_cast<int64_t>(hosts.size());
    const auto calls = calls_of(Collective::reduce_scatter, hosts.size(), size * 1000, 3);
    Members members(hosts, 3);
    members.run(calls);
    const Tensor expected = sum_in_order(hosts, calls);
    for (int64_t rank = 0; rank < size; ++rank)
      CHECK(same_bits(members.outputs[rank], elements_of(expected, rank * 1000, 1000)));
  }
}

TEST(gathers_and_broadcasts_of_any_root_reach_the_members_of_every_host) {
  for (const Hosts& hosts : kLayouts)
    for (uint64_t seed = 0; seed < 10; ++seed) {
      const auto size = hosts.size();
      std::vector<CollectiveCall> gathers, broadcasts, barriers;
      std::vector<float> all;
      const size_t root = seed % size;
      for (size_t rank = 0; rank < size; ++rank) {
        gathers.push_back(call_of(Collective::gather, random_values(static_cast<int64_t>(rank) * 5000, rank)));
        const float* given = gathers.back().input.flat<float>();
        all.insert(all.end(), given, given + gathers.back().input.num_elements());
        broadcasts.push_back(call_of(Collective::broadcast, random_values(20000, rank)));
        if (seed % 2 == 0)
          broadcasts.back().root = static_cast<int64_t>(root);
        else
          broadcasts.back().header.is_root = rank == root;  // The others do not know it.
        barriers.push_back(call_of(Collective::barrier, Tensor()));
      }
      Members gathering(hosts, seed), sending(hosts, seed), meeting(hosts, seed);
      gathering.run(gathers);
      sending.run(broadcasts);
      meeting.run(barriers);
      for (size_t rank = 0; rank < size; ++rank) {
        CHECK_EQUAL(gathering.outputs[rank].num_elements(), static_cast<int64_t>(all.size()));
        CHECK(std::memcmp(gathering.outputs[rank].raw(), all.data(), all.size() * sizeof(float)) == 0);
        CHECK(same_bits(sending.outputs[rank], broadcasts[root].input));
        CHECK(!meeting.errors[rank]);
      }
    }
}

TEST(each_byte_crosses_the_network_once_for_each_host) {
  const int64_t count = 1 << 20;
  auto bytes = [&](Collective kind, const Hosts& hosts) {
    Members members(hosts, 1);
    auto calls = calls_of(kind, hosts.size(), count, 1);
    if (kind == Collective::broadcast)
      for (auto& call : calls) call.root = 1;
    members.run(calls);
    return static_cast<int64_t>(members.bytes_between_hosts() / sizeof(float));
  };
  const Hosts two_by_two{"a", "a", "b", "b"}, apart{"", "", "", ""};
  // Both directions together; in chunks it would be 4 for two by two, and 3 for three and one.
  CHECK_EQUAL(bytes(Collective::reduce, two_by_two), 2 * count);
  CHECK_EQUAL(bytes(Collective::reduce, apart), 6 * count);
  CHECK_EQUAL(bytes(Collective::reduce, {"a", "a", "a", "b"}), 2 * count);
  CHECK_EQUAL(bytes(Collective::broadcast, two_by_two), 1 * count);
  CHECK_EQUAL(bytes(Collective::gather, two_by_two), 4 * count);
  CHECK_EQUAL(bytes(Collective::gather, apart), 12 * count);
}

TEST(members_that_disagree_fail_with_one_reason_on_all_hosts) {
  const Hosts hosts{"a", "b", "a", "b", "b"};
  // Sizes that are reduced in different ways, too.
  for (const int64_t other : {100001, 20000, 3})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      auto calls = calls_of(Collective::reduce, hosts.size(), 100000, seed);
      calls[3] = call_of(Collective::reduce, random_values(other, seed));
      Members members(hosts, seed);
      members.run(calls);
      for (const auto& error : members.errors) {
        CHECK(error && error->code() == Code::invalid_argument);
        CHECK_EQUAL(error->message(), members.errors[0]->message());
        CHECK(error->message().find("[100000] at rank 0") != std::string::npos);
      }
    }
}

TEST(members_that_disagree_about_the_operation_fail_on_all_hosts) {
  const Hosts hosts{"a", "a", "b", "b"};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto calls = calls_of(Collective::gather, hosts.size(), 100000, seed);
    calls[seed % 4] = call_of(Collective::reduce, random_values(100000, seed));
    Members members(hosts, seed);
    members.run(calls);
    for (const auto& error : members.errors) CHECK(error && error->message() == members.errors[0]->message());
  }
}

TEST(a_member_that_was_told_other_hosts_fails_the_run) {
  Members members(Hosts{"a", "a", "b", "b"}, 0);
  CollectiveCall call = call_of(Collective::reduce, random_values(100000, 1));
  members.runs[0]->start(call, members.done(0));
  call.header.layout = members.layout->digest();
  members.runs[0]->contributed(1, call.header, random_values(50000, 1));
  members.runs[0]->contributed(2, call.header, Tensor());
  call.header.layout = HostLayout({"a", "a", "a", "b"}).digest();
  members.runs[0]->contributed(3, call.header, Tensor());
  members.wait(1);
  CHECK(members.errors[0] && members.errors[0]->message().find("the list of hosts") != std::string::npos);
}

// Rank 0 of {0, 1}, {2, 3}: the first half is its lane, and the first quarter its chunk.
class FirstOfFour {
 public:
  explicit FirstOfFour(bool starts = true) {
    call.header.layout = members.layout->digest();
    if (starts) members.runs[0]->start(call, members.done(0));
  }
  CollectiveRun& run() { return *members.runs[0]; }
  void contribute() {
    run().contributed(1, call.header, random_values(count / 2, 1));
    run().contributed(2, call.header, Tensor());
    run().contributed(3, call.header, Tensor());
  }
  bool fails_with(const std::string& text) {
    members.wait(1);
    return members.errors[0] && members.errors[0]->message().find(text) != std::string::npos;
  }

  const int64_t count = 1 << 20;
  Members members{Hosts{"a", "a", "b", "b"}, 0};
  CollectiveCall call = call_of(Collective::reduce, random_values(count, 1));
};

TEST(pieces_that_do_not_fit_fail_the_run) {
  for (const int64_t sent : {0, 1, (1 << 18) - 1, 1 << 19, 1 << 20}) {
    FirstOfFour partial, result, lane;
    partial.run().partly_merged(2, random_values(sent, 1));
    CHECK(partial.fails_with("does not fit"));
    result.run().resulted(2, random_values(sent, 1));
    CHECK(result.fails_with("does not fit"));
    lane.run().contributed(1, lane.call.header, random_values(sent == 1 << 19 ? sent + 1 : sent, 1));
    lane.run().contributed(2, lane.call.header, Tensor());
    lane.run().contributed(3, lane.call.header, Tensor());
    CHECK(lane.fails_with("other elements than it announced"));
  }
  const Tensor quarter = random_values(1 << 18, 1);
  for (const int source : {0, 1, 3}) {  // Only rank 2 has the same lane.
    FirstOfFour first;
    first.run().partly_merged(source, quarter);
    CHECK(first.fails_with("does not fit"));
  }
  FirstOfFour twice;
  twice.run().partly_merged(2, quarter);
  twice.run().partly_merged(2, quarter);
  CHECK(twice.fails_with("does not fit"));
  FirstOfFour too_early(false);
  too_early.run().partly_merged(2, quarter);
  too_early.run().start(too_early.call, too_early.members.done(0));
  CHECK(too_early.fails_with("does not fit"));
}

TEST(a_run_in_lanes_needs_only_those_whose_messages_are_missing) {
  FirstOfFour first;
  CHECK(first.run().missing() == (std::vector<int>{1, 2, 3}));
  first.contribute();
  CHECK(first.run().needs(1) && first.run().needs(2) && !first.run().needs(3));
  CHECK(first.run().missing() == (std::vector<int>{1, 2, 3}));  // The results of rank 3 come through rank 1.
  const Tensor quarter = random_values(1 << 18, 1);
  first.run().partly_merged(2, quarter);
  first.run().resulted(2, quarter);
  CHECK(!first.run().needs(2));
  CHECK(first.run().missing() == (std::vector<int>{1, 3}));
  first.run().resulted(1, quarter);
  CHECK(first.run().needs(1));
  first.run().resulted(3, quarter);
  first.run().fail(Error(Code::unavailable, "a member is lost"));
  first.members.wait(1);
  CHECK(!first.members.errors[0]);
}

TEST(a_run_in_lanes_that_waits_for_a_lost_member_fails) {
  FirstOfFour first;
  first.contribute();
  first.run().fail(Error(Code::unavailable, "a member is lost"));
  CHECK(first.fails_with("a member is lost"));
}

// A root that has left has sent its message to one member of each other host only.
TEST(a_broadcast_does_not_need_a_root_whose_message_another_member_passes_on) {
  for (const int64_t root : {int64_t{0}, int64_t{-1}}) {
    Members members(Hosts{"a", "a", "b", "b"}, 0);
    CollectiveCall call = call_of(Collective::broadcast, Tensor());
    call.header.dtype = DType::float32;
    call.root = root;
    members.runs[3]->start(call, members.done(3));
    members.runs[2]->start(call, members.done(2));
    CHECK(!members.runs[3]->needs(0));
    CHECK(members.runs[3]->needs(2));
    CHECK_EQUAL(members.runs[3]->missing().front(), root < 0 ? 1 : 0);
    CHECK(members.runs[2]->needs(0));
    CHECK_EQUAL(members.runs[2]->needs(3), root < 0);
  }
}

}  // namespace
