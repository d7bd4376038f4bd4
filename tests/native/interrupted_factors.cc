// The factorization of one large matrix ends when its step has ended, not when it is done.
#include <functional>
#include <vector>

#include "check.h"
#include "compute/linear/factor.h"
#include "thread/interruption.h"

namespace {

using namespace thalweg;

constexpr int64_t kSide = 2500;  // Long enough to be interrupted: some hundred times the interval between two looks.

struct EndedStep final : Interruption {
  bool ended() override { return true; }
};

// Positive definite, and each step of an elimination changes its last element.
std::vector<float> matrix() {
  std::vector<float> a(kSide * kSide, 0.25f);
  for (int64_t i = 0; i < kSide; ++i) a[i * kSide + i] = 2.25f;
  return a;
}

// `work` changes a matrix from its first row to its last one.
void check_that_it_ends(const std::function<void(std::vector<float>&)>& work) {
  std::vector<float> whole = matrix(), interrupted = whole;
  work(whole);
  {
    const EndedStep step;
    CHECK_FAILS(Code::cancelled, "", work(interrupted));
  }
  CHECK(interrupted.back() != whole.back());
}

TEST(an_lu_factorization_ends_with_its_step) {
  check_that_it_ends([](std::vector<float>& a) {
    std::vector<int64_t> order;
    linear::lu(a.data(), kSide, order, true);
  });
}

TEST(a_cholesky_factorization_ends_with_its_step) {
  check_that_it_ends([](std::vector<float>& a) { linear::cholesky(a.data(), kSide, true); });
}

TEST(the_solution_of_a_triangular_system_ends_with_its_step) {
  const std::vector<float> a = matrix();
  check_that_it_ends([&](std::vector<float>& x) {
    linear::solve_triangular(linear::Triangle<float>{a.data(), kSide}, x.data(), kSide, true);
  });
}

}  // namespace
