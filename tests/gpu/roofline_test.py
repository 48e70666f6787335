#!/usr/bin/env python3
"""Tests roofline.py on a tiny model: the number of operations equals a closed form, times add up,
and work that is skipped on the simulated GPU is counted like work that is done."""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.getcwd(), "tests/gpu"))
sys.dont_write_bytecode = True

import inputs  # noqa: E402
import roofline  # noqa: E402

HOST = os.path.join(os.getcwd(), "tests/testing/pretend_device/host")
SHAPE = inputs.TINY
TOKENS = 256
MATRICES = 2 * (64 * 64 + 2 * 64 * 32 + 64 * 64 + 3 * 64 * 96)  # of the blocks
NORMS = 64 * (2 * 2 + 1)
HEAD = 320 * 64


def rows_of(counted):
    return {(row["operator"], row["shapes"], row["by"]): row for row in counted["work"]}


class Roofline(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.counted = roofline.count_step(HOST, SHAPE, TOKENS, {})

    def flops(self, by):
        return sum(row["flops"] for row in self.counted["work"] if row["by"] == by)

    def test_products_are_six_to_eight_times_the_matrices(self):
        # 6: forward and backward; 8: if blocks are recomputed and logits are not kept. Some rows,
        # those of the prompt, do not go through the head.
        flops = self.flops("product bf16") + self.flops("product fp32")
        self.assertGreater(flops, 6 * (MATRICES + HEAD) * TOKENS * 0.97)
        self.assertLessEqual(flops, 8 * (MATRICES + HEAD) * TOKENS)

    def test_attention_is_causal(self):
        once = 4 * (TOKENS * (TOKENS + 1) // 2) * 4 * 16 * 2
        forward = self.flops("attention forward bf16")
        self.assertIn(forward / once, (1, 2))  # kept or recomputed
        self.assertEqual(self.flops("attention backward bf16"), 2.5 * once)

    def test_what_is_left_out_is_asked_for_as_what_is_done(self):
        done = roofline.count_step(HOST, SHAPE, TOKENS, {}, products="all")
        got, want = rows_of(self.counted), rows_of(done)
        self.assertEqual(sorted(got), sorted(want))
        for key, row in want.items():
            self.assertEqual(got[key], row)
        self.assertEqual(self.counted["synchronizations"], done["synchronizations"])
        self.assertEqual(self.counted["peak_bytes"], done["peak_bytes"])

    def test_the_optimizer_reads_and_writes_what_it_must(self):
        parameters = MATRICES + NORMS + 2 * HEAD
        # Weight, gradient and two moments in fp32 are read; all but the gradient are written.
        moved = sum(
            row["read"] + row["written"]
            for row in self.counted["work"]
            if "adam" in row["operator"]
        )
        self.assertGreaterEqual(moved, 7 * 4 * parameters)
        self.assertLessEqual(moved, 8.5 * 4 * parameters)

    def test_times_are_added_up(self):
        found = roofline.predict(self.counted, SHAPE, [TOKENS], roofline.RATES, roofline.PEAK)
        seconds = 0.0
        for row in self.counted["work"]:
            if row["by"] == "link":
                continue
            efficiency = {
                "attention forward bf16": 0.36,
                "attention backward bf16": 0.32,
                "attention forward fp32": 0.6,
                "attention backward fp32": 0.5,
            }.get(row["by"], 0.75)
            peak = 67e12 if row["by"].endswith("fp32") else 989e12
            moving = (row["read"] + row["written"]) / (0.85 * 3.35e12)
            seconds += max(moving, row["flops"] / (efficiency * peak))
        self.assertAlmostEqual(found["seconds"] / seconds, 1, places=12)
        model = 6 * (MATRICES + NORMS + HEAD) * TOKENS + 12 * 2 * 64 * TOKENS**2
        self.assertAlmostEqual(found["mfu"] / (model / (989e12 * seconds)), 1, places=12)
        self.assertEqual(found["mfu"], found["mfu_dense"])
        halved = model - 6 * 2 * 64 * TOKENS**2
        self.assertAlmostEqual(found["mfu_causal"] / found["mfu"], halved / model, places=12)
        self.assertIn("MFU predicted", roofline.show(found, TOKENS, 5))

    def test_documents_count_by_their_own_length(self):
        linear, attention = roofline.model_flops(SHAPE, [192, 64])
        self.assertEqual(linear, 6 * (MATRICES + NORMS + HEAD) * 256)
        self.assertEqual(attention, 12 * 2 * 64 * (192**2 + 64**2))
        found = roofline.predict(self.counted, SHAPE, [192, 64], roofline.RATES, roofline.PEAK)
        dense = roofline.predict(self.counted, SHAPE, [256], roofline.RATES, roofline.PEAK)
        self.assertAlmostEqual(found["mfu_dense"], dense["mfu"], places=12)
        self.assertLess(found["mfu"], dense["mfu"])

    def test_cudnns_attention_has_a_rate_of_its_own(self):
        rates = {"bytes": 1e9, "attention forward bf16": 10.0, "cuDNN forward bf16": 40.0}
        row = {"read": 0, "written": 0, "flops": 80, "by": "attention forward bf16"}
        flash = row | {"operator": "aten::_flash_attention_forward"}
        cudnn = row | {"operator": "aten::_scaled_dot_product_cudnn_attention"}
        self.assertEqual(roofline.seconds_of(flash, rates), 8)
        self.assertEqual(roofline.seconds_of(cudnn, rates), 2)

    def test_measured_ceilings_take_the_place_of_the_table(self):
        twice = {name: 2 * rate for name, rate in roofline.RATES.items()}
        found, fast = (
            roofline.predict(self.counted, SHAPE, [TOKENS], rates, roofline.PEAK)["seconds"]
            for rates in (roofline.RATES, twice)
        )
        self.assertAlmostEqual(found / fast, 2, places=12)


if __name__ == "__main__":
    unittest.main(verbosity=2)
