// Collectives: the collective operations of one task, or of the devices of one session: groups of members, and the runs
// that are under way.
//
// A member is a device of a task. Members meet by the number of their group, not in a step: they may belong to one
// step, or to steps that processes of their own run. A group is *formed* once: all of its members have said that they
// join, and know each other in the order of their ranks. How that is agreed on is not decided here: a task asks its
// `Join` (dist/collectives.py), which ends in `formed` or `refused`. Devices of a session without a task agree among
// themselves.
//
// Runs of one instance are counted by each member, in each iteration of a loop: the n-th run of one member meets the
// n-th runs of the others. A generation of a group *breaks* as a whole when a member is lost, or a run of it is
// cancelled: its runs fail on all members, with the same reason, and the next call forms the group anew, with new
// counts. So nothing waits for a member that has gone, and no run meets one of another count. Runs whose messages have
// all arrived end well all the same. A member that has *left* (`left`: it has ended in good order, after its last run)
// breaks the generation only when a run needs a message that it has not sent.
//
// A member that runs nothing when its generation breaks learns the reason from its next call, where it matters: if the
// members disagree about the group (once), and if a group of a declared size has lost a member (until it is formed or
// declared again: the others may decide to go on without that member, and nothing waits for it in vain).
//
// Peers may be ahead, and what they send is kept within limits (net/limits.h). Ranks, generations and senders of
// messages are checked before anything is kept; element types and sizes before anything is merged
// (net/collective_run.h).
//
// Thread-safe; nothing is called with the lock held.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "net/collective_run.h"
#include "net/early_messages.h"
#include "net/frame.h"
#include "net/limits.h"
#include "net/socket.h"

namespace thalweg::net {

class Connection;

struct CollectiveMember {
  std::string task;
  std::string device;  // within the task: "device:CPU:0"
  uint64_t incarnation = 0;
  std::shared_ptr<Connection> peer;  // null for members of this object
  std::string host{};                // equal for members that share memory; empty: unknown
};

class Collectives : public std::enable_shared_from_this<Collectives> {
 public:
  // Asks that a device joins a group of this size. Called on a thread that may block.
  using Join = std::function<void(int64_t group, int64_t size, const std::string& device)>;
  // Tells about runs that wait for a long time.
  using Report = std::function<void(const std::string& text)>;
  // A call that is under way, for `cancel`.
  struct Pending;

  explicit Collectives(std::string task = {}, const Limits& limits = {})
      : task_(std::move(task)), early_messages_(limits.collectives, limits.collective_bytes) {}
  void set_join(Join join, Report report);

  // The collectives of sessions whose devices belong to no task; null if none has been chosen.
  static void set_default(std::weak_ptr<Collectives> chosen);
  static std::shared_ptr<Collectives> get_default();

  std::shared_ptr<Pending> start(CollectiveCall call, CollectiveDone done);
  // Ends a call with this error, unless it has ended.
  void cancel(const std::shared_ptr<Pending>& pending, const Error& error);

  // The size of a group whose calls do not say it (CollectiveCall::size is 0).
  void declare(int64_t group, int64_t size);
  // The group has these members, by rank. Later generations have larger numbers.
  void formed(int64_t group, uint64_t generation, std::vector<CollectiveMember> members);
  // A device cannot join.
  void refused(int64_t group, const std::string& device, const Error& error);
  // A task has left a group, and has sent all that it ever will: calls that need more of it end with this error, until
  // the group is declared or formed again.
  void left(int64_t group, const std::string& task, uint64_t incarnation, const Error& error);
  // Ends the runs of a generation of a group, on all members, if it is the present one; the next call forms it anew.
  void dissolve(int64_t group, uint64_t generation, const Error& error);
  // The last generation that was formed; 0 if there was none.
  uint64_t generation(int64_t group);
  // How many runs have ended without an error in this generation, on the member that is the least advanced here.
  uint64_t runs_ended(int64_t group);
  // The tasks whose messages are missing in runs that have been started here.
  std::set<std::string> awaited(int64_t group);
  // The ranks' tasks and devices; empty if the group is not formed.
  std::vector<CollectiveMember> members(int64_t group);

  void received(const std::shared_ptr<Connection>& from, Frame frame);
  void lost(const std::shared_ptr<Connection>& peer, const Error& why);
  void watch(Clock::time_point now);
  void close(const Error& why);

 private:
  struct RunKey {
    int64_t instance;
    uint64_t frame;
    int64_t iteration;
    auto operator<=>(const RunKey&) const = default;
  };
  struct NumberedKey {
    RunKey key;
    uint64_t count;
    auto operator<=>(const NumberedKey&) const = default;
  };
  struct Active {
    std::shared_ptr<CollectiveRun> run;
    Clock::time_point since;
    bool reported = false;
    std::vector<std::pair<uint64_t, size_t>> early;  // what peers have sent before it began: connections, and bytes
  };
  // A member of this object.
  struct LocalMember {
    std::map<RunKey, uint64_t> counts;  // how many runs have started
    std::map<NumberedKey, Active> runs;
    uint64_t ended_well = 0;
  };
  struct Generation {
    uint64_t number = 0;
    std::vector<CollectiveMember> members;
    std::shared_ptr<const HostLayout> layout;
  };
  struct Group {
    int64_t declared_size = 0;
    uint64_t last = 0;                         // the newest generation that was formed
    std::shared_ptr<const Generation> formed;  // null: not formed, or broken
    std::map<int, LocalMember> local;          // by rank
    std::map<std::string, int64_t> joining;    // devices, and the sizes that they expect
    std::vector<std::shared_ptr<Pending>> waiting;
    std::map<std::pair<std::string, uint64_t>, Error> left;  // tasks and incarnations
    std::shared_ptr<const Generation> broken;                // the last generation, if it broke
    std::optional<Error> reason;                             // what the next calls end with
    int reasons_told = 0;
  };
  // A message between members, in a frame.
  struct Message {
    int64_t group;
    uint64_t generation;
    NumberedKey key{};
    int source = 0, destination = 0;
    int origin = 0;  // where the message comes from in the first place: the source, or the member that it passes on
    CollectiveRun::Phase phase{};
    CollectiveHeader header;
    Tensor value;
    std::optional<Error> error;
  };
  static constexpr std::chrono::seconds kStall{30};
  // Whoever calls so often after the loss of a member does not look for it.
  static constexpr int kMostReasons = 100;

  // What a call ends with that finds a broken group; called with the lock.
  static std::optional<Error> reason_of(Group& group);
  std::string local_name(const std::string& device) const;
  void join(int64_t group, int64_t size, const std::string& device);
  // Begins the run of a call, when the group is formed.
  void enqueue(const std::shared_ptr<Pending>& pending);
  void begin(const std::shared_ptr<Pending>& pending);
  // The run of a key, made if it is not there; null if it has ended. Called with the lock.
  std::shared_ptr<CollectiveRun> run_of(int64_t number, Group& group, int rank, const NumberedKey& key);
  void send(int64_t group, const std::shared_ptr<const Generation>& generation, int source, const NumberedKey& key,
            int destination, CollectiveRun::Phase phase, int origin, const CollectiveHeader* header, Tensor value);
  void deliver(const std::shared_ptr<Connection>& from, Message message);
  // What a message takes of this process's memory: elements in a peer's shared memory are not copied.
  static size_t kept_bytes(const Connection& from, const Tensor& value);
  // What peers have sent for a run, or for all runs of a member, no longer counts as early. Called with the lock.
  void discharge(Active& active);
  void discharge(LocalMember& member);
  void break_up(int64_t group, uint64_t generation, const Error& error, bool tells_peers,
                const std::function<void()>& before_runs_end = nullptr);
  // Breaks the group if a run needs a message of a member that has left.
  void check_left(int64_t group);
  void ended(int64_t group, uint64_t generation, int rank, const NumberedKey& key, bool well);

  const std::string task_;

  std::mutex mutex_;  // guards everything below
  Join join_;
  Report report_;
  std::optional<Error> closed_;
  std::map<int64_t, Group> groups_;
  EarlyMessages early_messages_;  // messages in early_, and of runs that have not begun
  // Messages of generations that are not known here yet.
  std::vector<std::pair<std::weak_ptr<Connection>, Message>> early_;
};

}  // namespace thalweg::net
