--- Sign-SGD (Bernstein et al. 2018, arXiv 1802.04434): every weight moves by the learning rate, in
-- the direction that its gradient's momentum says. An optimizer for any run:
--   moonring train CONFIG.yaml optim=scripts/examples/sign_sgd.lua learning_rate=1e-5
-- momentum: adam_beta1; weight_decay: decoupled.
return function(config)
  return {
    name = "sign-SGD", moments = 1, -- numbers that are kept beside each weight
    state = function(p) return { momentum = p:zeros() } end,
    step = function(p, gradient, state, lr)
      state.momentum:lerp_(gradient, 1 - config.adam_beta1)
      if p.decays then p.weight:mul_(1 - lr * config.weight_decay) end
      p.weight:add_(state.momentum:sign(), { alpha = -lr })
    end,
  }
end
