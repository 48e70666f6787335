--- Sign-SGD (Bernstein et al. 2018, arXiv 1802.04434): each step changes every weight by the
-- learning rate, against the sign of its gradient's momentum. Works with any run:
--   moonring train CONFIG.yaml optim=scripts/examples/sign_sgd.lua learning_rate=1e-5
-- adam_beta1 is the momentum; weight_decay is decoupled.
return function(config)
  return {
    name = "sign-SGD", moments = 1, -- numbers stored per weight
    state = function(p) return { momentum = p:zeros() } end,
    step = function(p, gradient, state, lr)
      state.momentum:lerp_(gradient, 1 - config.adam_beta1)
      if p.decays then p.weight:mul_(1 - lr * config.weight_decay) end
      p.weight:add_(state.momentum:sign(), { alpha = -lr })
    end,
  }
end
