// run_soon: which work runs on the thread of a scope, which on the pool, and when.
#include "thread/run_soon.h"

#include <future>

#include "check.h"

namespace {

using namespace thalweg;

struct Piece {
  std::promise<std::thread::id> ran;
  std::future<std::thread::id> thread = ran.get_future();
  std::function<void()> work() {
    return [this] { ran.set_value(std::this_thread::get_id()); };
  }
  bool has_run() { return thread.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
};

TEST(without_a_scope_work_runs_elsewhere) {
  Piece piece;
  run_soon(0, piece.work());
  CHECK(piece.thread.get() != std::this_thread::get_id());
}

TEST(the_last_piece_of_work_runs_here_when_the_scope_ends) {
  Piece first, last;
  {
    SoonScope scope;
    run_soon(0, first.work());
    run_soon(0, last.work());
    CHECK(!first.has_run() && !last.has_run());
  }
  CHECK(last.has_run());
  CHECK(last.thread.get() == std::this_thread::get_id());
  CHECK(first.thread.get() != std::this_thread::get_id());
}

TEST(an_inner_scope_leaves_its_work_to_the_outer_one) {
  Piece first, last;
  {
    SoonScope outer;
    {
      SoonScope inner;
      run_soon(0, first.work());
      run_soon(0, last.work());
    }
    CHECK(!last.has_run());
  }
  CHECK(last.thread.get() == std::this_thread::get_id());
  CHECK(first.thread.get() != std::this_thread::get_id());
}

TEST(work_that_asks_for_work_does_not_wait_for_it) {
  Piece piece;
  std::thread::id thread;
  {
    SoonScope scope;
    run_soon(0, [&] {
      run_soon(0, piece.work());
      thread = piece.thread.get();
    });
  }
  CHECK(thread != std::this_thread::get_id());
}

TEST(a_scope_of_a_step_takes_only_the_work_of_this_step) {
  Piece own, others;
  {
    SoonScope scope(7);
    run_soon(8, others.work());
    run_soon(7, own.work());
    CHECK(others.thread.get() != std::this_thread::get_id());
    CHECK(!own.has_run());
  }
  CHECK(own.thread.get() == std::this_thread::get_id());
}

TEST(an_empty_scope_does_nothing) { SoonScope scope; }

}  // namespace
