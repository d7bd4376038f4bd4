// Hosts by rank, lanes, and who passes on what.
#include "net/host_layout.h"

#include <algorithm>
#include <map>

namespace thalweg::net {

HostLayout::HostLayout(const std::vector<std::string>& hosts) {
  std::map<std::string, int> known;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    int host = num_hosts();
    if (!hosts[rank].empty()) host = known.emplace(hosts[rank], host).first->second;
    if (host == num_hosts()) members_.emplace_back();
    host_.push_back(host);
    index_.push_back(static_cast<int>(members_[host].size()));
    members_[host].push_back(static_cast<int>(rank));
  }
  for (const auto& members : members_) {
    const int count = static_cast<int>(members.size());
    num_lanes_ = num_lanes_ == 0 ? count : std::min(num_lanes_, count);
  }
  // FNV-1a: members that were told different lists find out, which is no matter of trust.
  digest_ = 14695981039346656037u;
  for (int host : host_) digest_ = (digest_ ^ static_cast<uint64_t>(host)) * 1099511628211u;
}

int HostLayout::sender(int origin, int destination) const {
  if (share_host(origin, destination)) return origin;
  const auto& there = members_[host_[destination]];
  const int passes_on = there[index_[origin] % static_cast<int>(there.size())];
  return passes_on == destination ? origin : passes_on;
}

bool HostLayout::sends_to(int rank, int destination) const {
  return rank != destination && (share_host(rank, destination) || sender(rank, destination) == rank);
}

}  // namespace thalweg::net
