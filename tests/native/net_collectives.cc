// Collective frames of hostile, mistaken and early members: ranks, sizes, phases and counts are checked first.
#include "hostile_member.h"

namespace {

using namespace native_tests;
using Phase = CollectiveRun::Phase;

CollectiveHeader reduce_of(const Tensor& value) { return HostileMember::header(Collective::reduce, value); }

TEST(an_honest_contribution_ends_a_reduction) {
  HostileMember member;
  member.start(Collective::reduce, counting(40));
  member.receive(HostileMember::message(Phase::contribution, reduce_of(counting(40)), counting(40)));
  wait_until([&] { return member.num_ended() == 1; });
  CHECK(!member.ended[0].first);
  CHECK_EQUAL(member.ended[0].second.flat<int32_t>()[3], 2 * counting(40).flat<int32_t>()[3]);
}

TEST(frames_that_no_member_would_send_are_refused) {
  HostileMember member;
  const Tensor value = counting(40);
  Frame unknown_phase = HostileMember::message(Phase::result, {}, value);
  unknown_phase.flags = 5;
  CHECK_FAILS(Code::invalid_argument, "unknown phase 5", member.receive(std::move(unknown_phase)));
  Frame two = HostileMember::message(Phase::result, {}, value);
  two.tensors.push_back(value);
  CHECK_FAILS(Code::invalid_argument, "has 2 tensors", member.receive(std::move(two)));
  for (int32_t rank : {-1, 0, 2, 1 << 30})
    CHECK_FAILS(Code::invalid_argument, "a collective frame",
                member.receive(HostileMember::abort(Error(Code::aborted, ""), rank)));
  Frame elsewhere = HostileMember::message(Phase::result, {}, value);
  elsewhere.body[elsewhere.body.size() - 8] = 1;  // The destination is the peer itself.
  CHECK_FAILS(Code::invalid_argument, "which is not here", member.receive(std::move(elsewhere)));
  Frame cut = HostileMember::message(Phase::contribution, reduce_of(value), value);
  cut.body.resize(cut.body.size() - 1);
  CHECK_FAILS(Code::invalid_argument, "", member.receive(std::move(cut)));
  CollectiveHeader vast = reduce_of(value);
  Frame overflow = HostileMember::message(Phase::contribution, vast, value);
  overflow.body.back() = 0x7f;  // 2^62 rows, and more
  CHECK_FAILS(Code::invalid_argument, "overflow", member.receive(std::move(overflow)));
}

TEST(a_client_and_another_task_cannot_send_collective_frames) {
  HostileMember client({}, Identity{"c", "", 2});
  CHECK_FAILS(Code::invalid_argument, "a client sent",
              client.receive(HostileMember::message(Phase::result, {}, counting(4))));
  HostileMember member;
  member.collectives->formed(1, 2,
                             {{kOwn.task, "device:CPU:0", 1, nullptr}, {"/job:w/replica:0/task:5", "d", 9, nullptr}});
  CHECK_FAILS(Code::invalid_argument, "sent a collective frame for",
              member.receive(HostileMember::message(Phase::result, {}, counting(4), 0, 7, 2)));
}

TEST(elements_other_than_announced_fail_the_run_and_are_not_read) {
  for (Collective kind : {Collective::reduce, Collective::gather, Collective::reduce_scatter}) {
    for (const Tensor& sent : {counting(1), counting(0), counting(41), Tensor(DType::float64, Shape{40}), Tensor()}) {
      HostileMember member;
      const Tensor value = counting(40, Shape{4, 10});
      member.start(kind, value);
      member.receive(HostileMember::message(Phase::contribution, HostileMember::header(kind, value), sent));
      wait_until([&] { return member.num_ended() == 1; });
      CHECK(member.ended[0].first && member.ended[0].first->code() == Code::invalid_argument);
    }
  }
}

TEST(results_that_do_not_fit_fail_the_run) {
  for (const Tensor& sent : {counting(1), counting(20001), Tensor(DType::float64, Shape{20000}), Tensor()}) {
    HostileMember member;
    member.start(Collective::reduce, counting(40000));
    member.receive(HostileMember::message(Phase::result, {}, sent));
    wait_until([&] { return member.num_ended() == 1; });
    CHECK(member.ended[0].first && member.ended[0].first->message().find("does not fit") != std::string::npos);
  }
}

TEST(what_a_peer_sends_ahead_is_limited_in_number_and_bytes) {
  Limits limits;
  limits.collectives = 10;
  limits.collective_bytes = 4000;
  auto early = [&](HostileMember& member, uint64_t count, int64_t size, uint64_t generation = 1) {
    member.receive(
        HostileMember::message(Phase::contribution, reduce_of(counting(size)), counting(size), count, 7, generation));
  };
  for (uint64_t generation : {1, 2}) {  // Of this group, and of one that is not known yet.
    HostileMember member(limits);
    for (uint64_t count = 0; count < 10; ++count) early(member, count, 4, generation);
    CHECK_FAILS(Code::resource_exhausted, "10 messages", early(member, 10, 4, generation));
    HostileMember other(limits);
    early(other, 0, 900, generation);
    CHECK_FAILS(Code::resource_exhausted, "3600 bytes", early(other, 1, 900, generation));
  }
}

TEST(messages_no_longer_count_when_their_runs_have_begun) {
  Limits limits;
  limits.collectives = 10;
  HostileMember member(limits);
  for (uint64_t count = 0; count < 100; ++count) {
    member.receive(HostileMember::message(Phase::contribution, reduce_of(counting(4)), counting(4), count));
    member.start(Collective::reduce, counting(4));
    wait_until([&] { return member.num_ended() == count + 1; });
    CHECK(!member.ended[count].first);
  }
  for (uint64_t count = 0; count < 10; ++count)
    member.receive(HostileMember::message(Phase::contribution, reduce_of(counting(4)), counting(4), count, 8, 2));
  member.collectives->formed(1, 2, {{kOwn.task, "device:CPU:0", 1, nullptr}, member.member(kPeer)});
  for (uint64_t count = 0; count < 10; ++count) member.start(Collective::reduce, counting(4), 8);
  wait_until([&] { return member.num_ended() == 110; });
  CHECK(!member.ended.back().first);
  member.receive(HostileMember::message(Phase::contribution, reduce_of(counting(4)), counting(4), 10, 8, 2));
}

TEST(a_run_that_has_everything_survives_the_loss_of_a_member) {
  for (bool whole : {true, false}) {
    HostileMember member;
    const int64_t size = whole ? 40 : 40000;
    member.start(Collective::reduce, counting(size));
    {
      SoonScope soon;  // Merging begins at its end: after the loss, which was read together with the messages.
      const Tensor sent = whole ? counting(40) : elements_of(counting(size), 0, 20000);
      member.collectives->received(member.connection,
                                   HostileMember::message(Phase::contribution, reduce_of(counting(size)), sent));
      if (!whole)
        member.collectives->received(member.connection, HostileMember::message(Phase::result, {}, counting(20000)));
      member.collectives->lost(member.connection, Error(Code::unavailable, "its process has ended"));
    }
    wait_until([&] { return member.num_ended() == 1; });
    CHECK(!member.ended[0].first);
    member.start(Collective::reduce, counting(size));  // The group is gone nevertheless.
    CHECK(member.collectives->members(1).empty());
  }
}

TEST(a_run_that_waits_for_a_lost_member_fails) {
  HostileMember member;
  member.start(Collective::reduce, counting(40000));
  member.receive(HostileMember::message(Phase::contribution, reduce_of(counting(40000)), counting(20000)));
  member.collectives->lost(member.connection, Error(Code::unavailable, "its process has ended"));
  wait_until([&] { return member.num_ended() == 1; });
  CHECK(member.ended[0].first && member.ended[0].first->code() == Code::unavailable);
}

TEST(a_member_passes_on_only_what_comes_through_it) {
  HostileMember member({}, kPeer, kTwoByTwo);
  const Tensor value = counting(4);
  const Frame gathered =
      HostileMember::message(Phase::contribution, HostileMember::header(Collective::gather, value, kTwoByTwo), value);
  member.receive(HostileMember::from(gathered, 1, 3));  // Rank 1 passes on what rank 3 sends to its host.
  for (const int32_t origin : {2, 0, -1, 4, 1 << 30})
    CHECK_FAILS(Code::invalid_argument, "has what comes from the rank",
                member.receive(HostileMember::from(gathered, 1, origin)));
  CHECK_FAILS(Code::invalid_argument, "has what comes from the rank",
              member.receive(HostileMember::from(gathered, 3, 2)));
}

TEST(what_is_sent_ahead_is_passed_on_when_the_run_begins_and_counts_for_its_first_sender) {
  Limits limits;
  limits.collectives = 10;
  HostileMember member(limits, kPeer, kTwoByTwo);
  const Tensor value = counting(4);
  const CollectiveHeader header = HostileMember::header(Collective::gather, value, kTwoByTwo);
  auto early = [&](uint64_t count) {
    Frame frame = HostileMember::message(Phase::contribution, header, value, count);
    member.receive(HostileMember::from(std::move(frame), 2, 2));
  };
  for (uint64_t count = 0; count < 10; ++count) early(count);
  CHECK_FAILS(Code::resource_exhausted, "10 messages", early(10));
  CHECK_EQUAL(member.connection->bytes_sent(), 0);
  int64_t own = 0;
  {
    SoonScope soon;  // Passing on begins at its end.
    member.start(Collective::gather, value);
    own = member.connection->bytes_sent();
  }
  // The own contribution has gone to ranks 1 and 2; that of rank 2 goes to rank 1, in a frame of the same size.
  CHECK(own > 0);
  wait_until([&] { return member.connection->bytes_sent() == own / 2 * 3; });
}

TEST(a_reduction_in_lanes_ends_with_the_messages_of_all_hosts) {
  HostileMember member({}, kPeer, kTwoByTwo);
  const Tensor value = counting(80000), quarter = counting(20000);
  member.start(Collective::reduce, value);
  const CollectiveHeader header = HostileMember::header(Collective::reduce, value, kTwoByTwo);
  member.receive(HostileMember::message(Phase::contribution, header, elements_of(value, 0, 40000)));
  for (const int32_t rank : {2, 3})
    member.receive(HostileMember::from(HostileMember::message(Phase::contribution, header, Tensor()), rank, rank));
  member.receive(HostileMember::from(HostileMember::message(Phase::partial, {}, quarter), 2, 2));
  member.receive(HostileMember::from(HostileMember::message(Phase::result, {}, quarter), 2, 2));
  member.receive(HostileMember::message(Phase::result, {}, quarter));
  CHECK_EQUAL(member.num_ended(), 0u);
  member.receive(HostileMember::from(HostileMember::message(Phase::result, {}, quarter), 1, 3));
  wait_until([&] { return member.num_ended() == 1; });
  CHECK(!member.ended[0].first);
  const int32_t* found = member.ended[0].second.flat<int32_t>();
  CHECK_EQUAL(found[3], 2 * value.flat<int32_t>()[3] + quarter.flat<int32_t>()[3]);
  CHECK_EQUAL(found[20003], quarter.flat<int32_t>()[3]);
}

TEST(mutated_messages_fail_runs_or_are_refused) {
  const std::vector<Hosts> layouts{kApart, kTwoByTwo};
  const std::vector<std::vector<Frame>> samples{sample_messages(kApart), sample_messages(kTwoByTwo)};
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    Random random(seed);
    const size_t layout = random(2);
    HostileMember member({}, kPeer, layouts[layout]);
    const int64_t sizes[] = {40, 40000, 80000};
    member.start(static_cast<Collective>(random(5) + 1), counting(sizes[random(3)]));
    for (size_t i = random(3 + 5 * layout) + 1; i > 0; --i) {
      Frame frame = samples[layout][random(samples[layout].size())];
      if (random(layout == 0 ? 8 : 3) != 0) mutate(frame.body, random);
      if (random(8) == 0) frame.flags = static_cast<uint8_t>(random(256));
      if (random(8) == 0) frame.step = random(4);
      try {
        member.receive(std::move(frame));
      } catch (const Error& error) {
        CHECK(error.code() == Code::invalid_argument || error.code() == Code::resource_exhausted);
      }
    }
  }
}

}  // namespace
