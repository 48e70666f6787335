#ifndef MOONRING_COMM_MESH_H_
#define MOONRING_COMM_MESH_H_

// The world cut along two axes, dp x sp:  rank = dp_rank * sp_size + sp_rank.
//
// sp is the fastest, so that the ranks that share a sequence are neighbours (on one machine). An sp
// group holds one stream of documents, cut by a layout; the ranks of a dp group hold the same part
// of different streams. The mesh owns the layout rule: one layout a micro-batch, the same on every
// rank of the sp group, made without communication.
//
// Making a mesh connects dp + sp groups, every rank in the same order.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/communicator.h"
#include "comm/layout.h"
#include "comm/process_groups.h"

namespace moonring::comm {

class Mesh {
 public:
  // INVALID_ARGUMENT where sp does not divide the world. Every rank calls it with the same sp.
  static absl::StatusOr<std::shared_ptr<Mesh>> Create(std::shared_ptr<World> world, int sp);

  int dp_size() const { return dp_->size(); }
  int dp_rank() const { return dp_->rank(); }
  int sp_size() const { return sp_->size(); }
  int sp_rank() const { return sp_->rank(); }

  Communicator& world() const { return *world_->communicator(); }
  Communicator& dp() const { return *dp_; }
  Communicator& sp() const { return *sp_; }
  std::shared_ptr<Communicator> world_group() const { return world_->communicator(); }
  std::shared_ptr<Communicator> dp_group() const { return dp_; }
  std::shared_ptr<Communicator> sp_group() const { return sp_; }

  // In calls on all groups of the world so far.
  absl::Duration waited() const { return world_->waited(); }

  // Notes between all ranks (rank_notes.h); null with one rank.
  std::shared_ptr<RankNotes> notes() const { return world_->notes(); }

  // The world cut into groups of `size` neighbouring ranks, and those of the ranks that have the
  // same place in theirs: rank = peer * size + place. This rank's of either kind; those that the
  // mesh has are used again. INVALID_ARGUMENT where size does not divide the world. Every rank
  // calls it.
  struct Cut {
    std::shared_ptr<Communicator> neighbours, peers;
  };
  absl::StatusOr<Cut> CutWorld(int size) const;

  // One more group of the ranks of dp(), for transfers that its calls are not to wait behind. Every
  // rank calls it.
  absl::StatusOr<std::shared_ptr<Communicator>> AnotherDpGroup(const std::string& name) const;

  // How a stream of documents is cut over this mesh's sp group, whose axes are context x heads.
  // INVALID_ARGUMENT where these do not make up the group.
  absl::StatusOr<std::shared_ptr<const Layout>> MakeLayout(std::vector<int64_t> lengths,
                                                           Division division,
                                                           SpanCost cost = nullptr) const;

 private:
  Mesh(std::shared_ptr<World> world, std::shared_ptr<Communicator> dp,
       std::shared_ptr<Communicator> sp);

  std::shared_ptr<World> world_;
  std::shared_ptr<Communicator> dp_, sp_;
};

}  // namespace moonring::comm

#endif  // MOONRING_COMM_MESH_H_
