--- Constants of the memory prediction that measurements may correct: numbers of full-length
-- tensors, and budgets in bytes. Symbols as in memory.lua.

return {
  -- [t, D] of a bytes in a block's backward: the gradient of its input, which overwrites that of
  -- its output.
  stream = 1,
  -- On a CPU [t, Hk, d] twice: per-thread gradients of keys and values.
  key_sums = 1,
  -- A layer that keeps its graph: [t, D] of a bytes, [t, D] of e bytes, [t, I] of e bytes, in
  -- addition to attention's.
  graph_stream = 2, graph_normed = 1, graph_mlp = 2,
  -- [t, I] of e bytes if the MLP is never tiled: gate, up and their product, and the gradients of
  -- these.
  whole_mlp = 6,
  -- Bytes per logit if all logits exist at once: in bf16, in fp32, their log-softmax, its gradient
  -- (as in Transformers: 2 + 4 + 4 + 4).
  whole_logits = 14,
  -- The same while a reference computes its logits: the policy's in fp32 and their log-softmax, and
  -- the reference's 2 + 4 + 4.
  whole_pair_logits = 18,
  -- Mixers other than attention: numbers per tensor that their rule processes at a time
  -- (mixers/rule/packed_heads.h), and how many such tensors its backward has; the backward of a
  -- gated norm in tensors [V], and of a convolution in tensors [C], in the type of sums
  -- (model/blocks/gated_norm.cc, mixers/rule/short_convolution.cc).
  rule_numbers = { cpu = 2 ^ 17, cuda = 2 ^ 23 }, rule_work = 30, norm_work = 5,
  convolution_work = 5,
  -- Layers whose offloaded inputs are still in memory. With a host store, in the forward: three
  -- that are being copied out (model/blocks/host_store.cc), including the final norm's input; in
  -- the backward: one in use and one read ahead. With disk: one in use; read-ahead is in the page
  -- cache.
  offloaded_layers = { cpu = 3, disk = 1 }, offloaded_back = { cpu = 2, disk = 1 },
  gathered_blocks = 2, -- blocks gathered under ZeRO-3: one in use, one prefetched
  -- The largest bytes of a tile of rows, and the fewest rows (model/blocks/row_tiles.h).
  tile_bytes = 2 ^ 26, tile_rows = { cpu = 512, cuda = 8192 },
  -- Bytes per row of a tile in its backward, which determine the tile's size; measured on a
  -- CPU: numbers of [I] and of [D] of a bytes, in addition to its heads
  -- (model/blocks/transformer_block.cc); and [D] for each expert that a token is sent to.
  tile_mlp = 5, tile_stream = 7, tile_chosen = 3,
  -- A chunk of logits: bytes in all dtypes together, and the fewest rows (objectives/log_prob.h).
  chunk_bytes = 2 ^ 26, logit_rows = { cpu = 1, cuda = 4096 },
  -- Elements of W + s B A at a time when DoRA computes row norms, in fp32
  -- (model/blocks/projection.cc).
  norm_elements = 2 ^ 24,
  host_piece = 2 ^ 25, -- piece of gradients for the host's sums (trainer/sharding/host_sums.h)
  -- Moments that are not stored in fp32: numbers per processed piece, and bytes per number of it,
  -- by storage type: both moments in fp32, and the tensors that round them
  -- (trainer/optimizer/moment.cc).
  moment_piece = 2 ^ 22, moment_work = { bf16 = 36, codes = 16 },
  zero_bucket = 2 ^ 25, -- bucket for gradients and weights of shards
  -- Anonymous memory of a process before training: on a CPU 61 MiB after its start, 20 more for its
  -- data (measured: 17 for 1,090 rows of 180 thousand tokens), 40 that the allocator keeps between
  -- two trims (base/memory/heap.h).
  base = { cpu = 128e6 },
  -- The tokenizer's tables on a CPU, per id (measured while they are built: 35 MB for SmolLM2's
  -- 49,152, 134 MB for Qwen 3's 151,643).
  tokenizer = 900,
  -- Pages of the program and of its libraries that a run on a CPU has read (measured: 81 to 83
  -- MiB). They are file-backed, and the kernel can evict them.
  libraries = 82 * 2 ^ 20,
  -- Memory of a GPU outside of tensors, in bytes.
  gpu = {
    -- The CUDA context with the loaded kernels; outside of LibTorch's allocator (assumed, not
    -- measured).
    context = 500 * 2 ^ 20,
    -- A cuBLAS workspace for each handle and stream (LibTorch 2.11, CublasHandlePool.cpp), here one
    -- of each: 32 MiB on Hopper and Blackwell, 8.1 MiB on earlier GPUs.
    cublas = 2 ^ 25,
    nccl = 2 ^ 28, -- buffers of a group of 2 or more ranks (assumed)
    -- The last page of each of the allocator's pools, 20 MiB with expandable segments: for
    -- computing, copies to the host, and collectives.
    pages = 3 * 20 * 2 ^ 20,
  },
}
