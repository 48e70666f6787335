--- Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), as torch.optim.Muon: a
-- matrix is updated by its momentum, orthogonalized with Newton-Schulz iterations in bf16. Vectors,
-- the embedding and the head are updated by AdamW. Works with any run:
--   moonring train CONFIG.yaml optim=scripts/examples/muon.lua learning_rate=1e-3
-- The rate of a matrix is multiplied by 0.2 sqrt(longer side), so its updates are as large as
-- AdamW's (Liu et al. 2025, arXiv 2502.16982). adam_beta1, adam_beta2 and adam_epsilon are those of
-- AdamW; weight_decay is decoupled.
local MOMENTUM, STEPS, A, B, C = 0.95, 5, 3.4445, -4.7750, 2.0315
local function orthogonal(matrix)
  if matrix:size(0) > matrix:size(1) then return orthogonal(matrix:t()):t() end
  local x = matrix:to "bf16"
  x = x / x:norm():clamp(1e-7)
  for _ = 1, STEPS do
    local gram = x:mm(x:t())
    x = x:addmm(gram:addmm(gram, gram, { beta = B, alpha = C }), x, { beta = A })
  end
  return x
end

return function(c)
  local b1, b2 = c.adam_beta1, c.adam_beta2
  return { name = "Muon", moments = 1, -- per weight of a matrix; most weights are in matrices
    whole = function(p) return p.ndim == 2 and p.name:find "layers%." ~= nil end,
    state = function(p) return { m = p:zeros(), v = not p.whole and p:zeros() or nil } end,
    step = function(p, g, s, lr, k)
      if p.decays then p.weight:mul_(1 - lr * c.weight_decay) end
      s.m:lerp_(g, 1 - (p.whole and MOMENTUM or b1))
      if p.whole then
        local rate = lr * 0.2 * math.max(p.shape[1], p.shape[2]) ^ 0.5
        p.weight:add_(orthogonal(g:lerp(s.m, MOMENTUM)), { alpha = -rate })
      else
        s.v:mul_(b2):addcmul_(g, g, { value = 1 - b2 })
        local scale = s.v:sqrt():div_((1 - b2 ^ k) ^ 0.5):add_(c.adam_epsilon)
        p.weight:addcdiv_(s.m, scale, { value = -lr / (1 - b1 ^ k) })
      end
    end }
end
