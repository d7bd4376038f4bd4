// Runs of collective operations without sockets: messages arrive in an order that a seed decides.
#include <cstring>

#include "collective_members.h"

namespace {

using namespace native_tests;

TEST(sums_have_the_same_bits_in_any_order_of_messages) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const int size = 1 + static_cast<int>(random() % 5);
    const int64_t count =
        seed % 2 == 0 ? static_cast<int64_t>(random() % 50) : 16384 + static_cast<int64_t>(random() % 3000);
    std::vector<CollectiveCall> calls;
    Tensor expected;
    for (int rank = 0; rank < size; ++rank) {
      calls.push_back(call_of(Collective::reduce, random_values(count, seed * 100 + static_cast<uint64_t>(rank))));
      if (rank == 0)
        expected = calls[0].input.clone();
      else
        for (int64_t i = 0; i < count; ++i) expected.flat<float>()[i] += calls[rank].input.flat<float>()[i];
    }
    Members members(size, seed);
    members.run(calls);
    for (int rank = 0; rank < size; ++rank) {
      CHECK(!members.errors[rank]);
      CHECK(members.outputs[rank].shape() == expected.shape());
      CHECK(std::memcmp(members.outputs[rank].raw(), expected.raw(), expected.bytes()) == 0);
      CHECK(members.runs[rank]->missing().empty());
    }
  }
}

TEST(members_that_disagree_fail_with_one_reason) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Members members(3, seed);
    std::vector<CollectiveCall> calls;
    for (int64_t count : {20000, 20000, 20001}) calls.push_back(call_of(Collective::reduce, random_values(count, 1)));
    members.run(calls);
    for (const auto& error : members.errors) {
      CHECK(error && error->code() == Code::invalid_argument);
      CHECK_EQUAL(error->message(), members.errors[0]->message());
      CHECK(error->message().find("[20000] at rank 0 and [20001] at rank 2") != std::string::npos);
    }
  }
}

TEST(gather_broadcast_and_barrier_end_everywhere) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<CollectiveCall> gathers, broadcasts, barriers;
    for (int rank = 0; rank < 3; ++rank) {
      gathers.push_back(call_of(Collective::gather, random_values(rank * 10, 1)));
      broadcasts.push_back(call_of(Collective::broadcast, random_values(7, static_cast<uint64_t>(rank))));
      broadcasts.back().root = 1;
      barriers.push_back(call_of(Collective::barrier, Tensor()));
    }
    Members gathering(3, seed), sending(3, seed), meeting(3, seed);
    gathering.run(gathers);
    sending.run(broadcasts);
    meeting.run(barriers);
    for (int rank = 0; rank < 3; ++rank) {
      CHECK_EQUAL(gathering.outputs[rank].num_elements(), 30);
      CHECK(std::memcmp(sending.outputs[rank].raw(), broadcasts[1].input.raw(), 28) == 0);
      CHECK(!meeting.errors[rank]);
    }
  }
}

TEST(a_run_that_has_failed_tells_its_member_whenever_that_starts) {
  Members members(2, 0);
  members.runs[0]->fail(Error(Code::unavailable, "a member is lost"));
  members.runs[0]->start(call_of(Collective::barrier, Tensor()), members.done(0));
  CHECK(members.errors[0] && members.errors[0]->code() == Code::unavailable);
  members.runs[1]->start(call_of(Collective::barrier, Tensor()), members.done(1));
  CHECK_EQUAL(members.runs[1]->missing().size(), 1u);
  members.runs[1]->fail(Error(Code::unavailable, "a member is lost"));
  members.runs[1]->contributed(0, call_of(Collective::barrier, Tensor()).header, Tensor());
  CHECK(members.errors[1] && members.errors[1]->code() == Code::unavailable);
}

TEST(a_peer_that_sends_other_elements_than_it_announced_fails_the_run) {
  for (const int64_t sent : {0, 9, 11}) {
    Members members(2, 0);
    CollectiveCall call = call_of(Collective::reduce, random_values(10, 1));
    call.header.layout = members.layout->digest();
    members.runs[0]->contributed(1, call.header, random_values(sent, 1));
    members.runs[0]->start(call, members.done(0));
    members.wait(1);
    CHECK(members.errors[0]->message().find("other elements than it announced") != std::string::npos);
  }
}

// A member may end right after its last run, while others still compute.
TEST(a_run_whose_messages_have_arrived_does_not_fail_when_a_member_is_lost) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    for (const int64_t count : {10, 50000}) {
      Members members(2, 0);
      CollectiveCall call = call_of(Collective::reduce, random_values(count, 1));
      call.header.layout = members.layout->digest();
      const bool in_chunks = count == 50000;
      members.runs[0]->start(call, members.done(0));
      members.runs[0]->contributed(1, call.header, random_values(in_chunks ? 25008 : count, 2));
      CHECK_EQUAL(members.runs[0]->needs(1), in_chunks);
      if (in_chunks) members.runs[0]->resulted(1, random_values(count - 25008, 3));
      members.runs[0]->fail(Error(Code::unavailable, "a member is lost"));
      members.wait(1);
      CHECK(!members.errors[0]);
      CHECK_EQUAL(members.outputs[0].num_elements(), count);
    }
  }
}

}  // namespace
