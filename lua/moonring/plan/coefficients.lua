--- Constants of the memory prediction that measurements may correct: how many tensors of a given
-- size exist at a time, and sizes in bytes. memory.lua defines the symbols; [t, D] is a tensor with
-- D numbers for each of a rank's t tokens.

return {
  -- Bytes per element by precision: e of matrix products, w of stored trainable weights, a of the
  -- residual stream, g of gradients; and the dtype of the products.
  bytes = {
    fp32 = { e = 4, w = 4, a = 4, g = 4, dtype = "fp32" },
    bf16 = { e = 2, w = 4, a = 4, g = 4, dtype = "bf16" },
    fp16 = { e = 2, w = 4, a = 4, g = 4, dtype = "fp16" },
    pure_bf16 = { e = 2, w = 2, a = 4, g = 4, dtype = "bf16" },
    fp64 = { e = 8, w = 8, a = 8, g = 8, dtype = "fp64" },
  },
  -- The number of [t, D] tensors of a bytes in a block's backward: one, since the gradient of the
  -- block's input overwrites that of its output.
  stream = 1,
  -- The number of [t, Hk, d] tensors, for keys and for values, that a CPU's per-thread gradients
  -- need.
  key_sums = 1,
  -- Tensors that a layer with its whole graph keeps in addition to attention's: [t, D] of a bytes,
  -- [t, D] of e bytes, [t, I] of e bytes.
  graph_stream = 2, graph_normed = 1, graph_mlp = 2,
  -- The number of [t, I] tensors of e bytes if the MLP is not tiled: gate, up and their product,
  -- and the gradients of these three.
  whole_mlp = 6,
  -- Bytes per logit if all logits exist at once, as in Transformers: 2 in bf16, 4 in fp32, 4 for
  -- their log-softmax, 4 for its gradient.
  whole_logits = 14,
  -- Bytes per logit while a reference model computes its logits, too: 4 for the policy's in fp32, 4
  -- for their log-softmax, and 2 + 4 + 4 for the reference's.
  whole_pair_logits = 18,
  -- Mixers other than attention. rule_numbers: elements per tensor that their rule processes at a
  -- time (mixers/rule/packed_heads.h). rule_work: how many such tensors the rule's backward has.
  -- norm_work and convolution_work: tensors in the backward of a gated norm and of a convolution,
  -- with one row of V or C numbers per token, in the dtype of sums (model/blocks/gated_norm.cc,
  -- mixers/rule/short_convolution.cc).
  rule_numbers = { cpu = 2 ^ 17, cuda = 2 ^ 23 }, rule_work = 30, norm_work = 5,
  convolution_work = 5,
  -- The number of layers whose offloaded inputs are still in memory. Offloading to the host: in the
  -- forward three that are being copied (model/blocks/host_store.cc), including the final norm's
  -- input; in the backward one in use and one read ahead. Offloading to disk: one in use; data that
  -- is read ahead is in the page cache.
  offloaded_layers = { cpu = 3, disk = 1 }, offloaded_back = { cpu = 2, disk = 1 },
  gathered_blocks = 2, -- blocks gathered under ZeRO-3: one in use, one prefetched
  -- The maximum bytes of a tile of rows, and its minimum number of rows (model/blocks/row_tiles.h).
  tile_bytes = 2 ^ 26, tile_rows = { cpu = 512, cuda = 8192 },
  -- The bytes per row of a tile in its backward, which determine the tile's size; measured on a
  -- CPU. They are tile_mlp times I and tile_stream times D numbers of a bytes, in addition to the
  -- heads (model/blocks/transformer_block.cc), and tile_chosen times D for each expert per token.
  tile_mlp = 5, tile_stream = 7, tile_chosen = 3,
  -- A chunk of logits: its bytes in all dtypes together, and its minimum number of rows
  -- (objectives/log_prob.h).
  chunk_bytes = 2 ^ 26, logit_rows = { cpu = 1, cuda = 4096 },
  -- Elements of W + s B A that exist at a time, in fp32, when DoRA computes row norms
  -- (model/blocks/projection.cc).
  norm_elements = 2 ^ 24,
  host_piece = 2 ^ 25, -- piece of gradients for the host's sums (trainer/sharding/host_sums.h)
  -- Moments that are not stored in fp32 are processed in pieces (trainer/optimizer/moment.cc): the
  -- elements of a piece; and by storage type the bytes per element, for both moments in fp32 and
  -- the tensors that round them.
  moment_piece = 2 ^ 22, moment_work = { bf16 = 36, codes = 16 },
  zero_bucket = 2 ^ 25, -- bucket for gradients and weights of shards
  -- Anonymous memory of a process before training. On a CPU: 61 MiB after its start, 20 MiB for its
  -- data (measured: 17 for 1,090 rows of 180 thousand tokens), and 40 MiB that the allocator keeps
  -- between two trims (base/memory/heap.h).
  base = { cpu = 128e6 },
  -- Bytes per id of the tokenizer's tables on a CPU (measured while they are built: 35 MB for
  -- SmolLM2's 49,152 ids, 134 MB for Qwen 3's 151,643).
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
