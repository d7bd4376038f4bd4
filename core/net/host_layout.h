// HostLayout: which members of a collective group share a host, and what follows from that.
//
// All members compute the same layout from the list of the group (dist/group_agreement.py). It decides the order of
// summation: within a host in the order of ranks, then over the hosts in the order of their first ranks. What a member
// has for everybody goes to one member of each other host, which passes it on: so it crosses the network once for each
// host. A reduction in *lanes* divides the tensor by as many members of each host as the smallest host has; a lane is
// divided by the hosts. Immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thalweg::net {

class HostLayout {
 public:
  // By rank: members with the same text share a host; a member without one is alone on its host.
  explicit HostLayout(const std::vector<std::string>& hosts);

  int size() const { return static_cast<int>(host_.size()); }
  int num_hosts() const { return static_cast<int>(members_.size()); }
  // Hosts are numbered in the order of their first ranks.
  int host(int rank) const { return host_[rank]; }
  // The ranks of a host, in their order.
  const std::vector<int>& members(int host) const { return members_[host]; }
  bool share_host(int a, int b) const { return host_[a] == host_[b]; }
  // Several hosts, and several members on one of them: otherwise the order of summation is that of the ranks, and all
  // members send to each other directly.
  bool is_hierarchical() const { return num_hosts() > 1 && num_hosts() < size(); }
  // The same for members that have the same layout.
  uint64_t digest() const { return digest_; }

  // The member that sends `destination` what `origin` has for everybody.
  int sender(int origin, int destination) const;
  // Whether a member is the sender of anything to another one.
  bool sends_to(int rank, int destination) const;

  int num_lanes() const { return num_lanes_; }
  int num_chunks() const { return num_lanes_ * num_hosts(); }
  // The chunk of a lane that a member merges; -1 if it merges none. Chunks of one lane are neighbours.
  int chunk(int rank) const { return index_[rank] < num_lanes_ ? index_[rank] * num_hosts() + host_[rank] : -1; }
  int owner(int chunk) const { return members_[chunk % num_hosts()][chunk / num_hosts()]; }
  int lane(int rank) const { return index_[rank]; }

 private:
  std::vector<int> host_, index_;  // by rank: its host, and its place among the members of that
  std::vector<std::vector<int>> members_;
  int num_lanes_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace thalweg::net
