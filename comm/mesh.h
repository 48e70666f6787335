#ifndef MOONRING_COMM_MESH_H_
#define MOONRING_COMM_MESH_H_

// The mesh: the ranks of the world along two axes, dp x sp: rank = dp_rank * sp_size + sp_rank.
//
// sp varies fastest, so the ranks that share a sequence are neighbours (on one machine). An sp
// group has one stream of documents, cut by a layout; the ranks of a dp group have the same shard
// of different streams. The mesh makes the layouts: one per micro-batch, the same on every rank of
// the sp group, without communication.
//
// Creating a mesh connects dp + sp groups, on every rank in the same order.

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
  // INVALID_ARGUMENT if sp does not divide the world size. Every rank must pass the same sp.
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

  // Total time that this rank has spent in calls on all groups of the world.
  absl::Duration waited() const { return world_->waited(); }

  // The channel for notes between all ranks (rank_notes.h); null with one rank.
  std::shared_ptr<RankNotes> notes() const { return world_->notes(); }

  // Cuts the world into groups of `size` neighbouring ranks, and also into groups of peers, the
  // ranks that have the same position in their groups of neighbours: rank = peer * size + position.
  // Returns this rank's two groups; groups that the mesh already has are reused. INVALID_ARGUMENT
  // if size does not divide the world size. Every rank must call it.
  struct Cut {
    std::shared_ptr<Communicator> neighbours, peers;
  };
  absl::StatusOr<Cut> CutWorld(int size) const;

  // Creates another group of the ranks of dp(), so that transfers on this group do not delay calls
  // on dp(). Every rank must call it.
  absl::StatusOr<std::shared_ptr<Communicator>> AnotherDpGroup(const std::string& name) const;

  // Returns the layout of a stream of documents over this mesh's sp group. INVALID_ARGUMENT if the
  // sizes of the division's two axes, contexts and heads, do not multiply to the group's size.
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
