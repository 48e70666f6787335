"""Words, BLEU and ROUGE, by the packages with which LLaMA-Factory 0.9.5 computes the scores of
predict_with_generate:

    jieba==0.42.1  rouge-chinese==1.0.3  nltk==3.9.2

    make.py --packages DIR     DIR: pip install --target DIR of these three

words.json: texts, and their words by jieba.cut. Some texts are hand-written; others are random
sequences of words of the dictionary, rare characters, letters, digits and signs. pairs.json: for
each pair of texts LLaMA-Factory's ComputeSimilarity (rounded), and sentence_bleu and Rouge's `f`
(not rounded); the error's message if ComputeSimilarity raises one.
"""

import argparse
import json
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

PAIRS = [
    ("", ""),
    ("", "有标签，没有预测。"),
    ("有预测，没有标签。", ""),
    (" \n\t ", "white space alone"),
    ("white space alone", "\u3000\u00a0\n"),
    ("。", "。"),
    (".", "."),
    ("......", "……"),
    ("我来到北京清华大学", "我来到北京清华大学"),
    ("我来到北京清华大学", "他来到了网易杭研大厦"),
    ("小明硕士毕业于中国科学院计算所，后在日本京都大学深造", "小明毕业于中国科学院，后来去了京都大学。"),
    ("今天天气很好，我们去公园散步吧。", "今天天气不错，我们一起去公园走走吧。"),
    ("今天天气很好。我们去公园散步吧！好吗？好的。", "我们去公园散步吧！今天天气很好。"),
    ("他说：“今天不去了。”然后就走了。", "他说：“明天再去吧！”于是离开了。"),
    ("他问：“你去吗？”。她说：‘不去！’，走了", "他问：“你去吗？”她答：‘去。’"),
    ("等等……我想想……好吧", "等等......我再想想......行吧"),
    ("等等……………我想", "等等……我想"),
    ("......我不知道.......真的", "......我知道......"),
    ("第一段。\n\n第二段。\n\n\n第三段。", "第一段。\n\n第二段！"),
    ("一\r\n二\r\n\r\n三", "一\n二\n\n三"),
    ("The quick brown fox jumps over the lazy dog.", "The quick brown fox jumped over a lazy dog."),
    ("the the the the the the the", "the cat is on the mat"),
    ("It is a guide to action.", "It is a guide to action."),
    ("Hello", "hello"),
    ("a", "a"),
    ("ab", "ab"),
    ("abc", "abc"),
    ("abcd", "abcd"),
    ("abcde", "abxde"),
    ("short", "a rather longer label than the prediction is, by far"),
    ("a rather longer prediction than the label is, by far", "short"),
    ("3.14", "3.14"),
    ("圆周率约为3.14159，占比100%，合计1,234.56元。", "圆周率是3.14，占100%，共1,234.56元。"),
    ("3.14.15和2.5%和50%%以及.5", "3.14和2.5%"),
    ("C++和C#比Python快3倍", "C++比Python快，C#也是"),
    ("AT&T的B超设备iPhone13pro-max", "AT&T的B超iPhone13 pro max"),
    ("user_name@example.com 的密码是 p@ssw0rd!", "邮箱 user_name@example.com，密码 p@ssw0rd"),
    ("don't can't won't", "do not cannot will not"),
    ("snake_case kebab-case camelCase", "snake_case kebab-case PascalCase"),
    ("😀😃😄 很开心！", "😀 很高兴！😄"),
    ("👨‍👩‍👧‍👦一家人🇨🇳", "👨‍👩‍👧一家人🇨🇳🇨🇳"),
    ("naïve café résumé", "naive cafe resume"),
    ("Привет, мир! Как дела?", "Привет, мир. Хорошо."),
    ("こんにちは、世界。今日はいい天気ですね。", "こんにちは世界。いい天気です。"),
    ("안녕하세요 세계", "안녕 세계"),
    ("مرحبا بالعالم", "مرحبا"),
    ("鼋鼍蛟龙魑魅魍魉饕餮", "鼋鼍魑魅饕餮貔貅"),
    ("丨亅丿乀乁乂乄乆乇", "丨亅乂乇"),
    ("龥龦龧龨龩龪龫鿕", "龥龦鿕鿖鿗"),
    ("㐀㐁㐂 𠀀𠀁 〇一二", "㐀㐂 𠀁 〇二"),
    ("欧阳修与司马光，诸葛亮和曹操。", "欧阳修和司马光；诸葛孔明与曹孟德。"),
    ("李小福是创新办主任也是云计算方面的专家", "李小福是云计算专家，也是主任"),
    ("结婚的和尚未结婚的确实在干扰分词啊", "结婚的和没结婚的都在干扰分词"),
    ("乒乓球拍卖完了，南京市长江大桥", "乒乓球拍卖完了。南京市长，江大桥"),
    ("工信处女干事每月经过下属科室都要亲口交代24口交换机等技术性器件的安装工作", "工信处干事每月检查24口交换机的安装"),
    ("def f(x):\n    return x + 1\n", "def f(x):\n\treturn x+1"),
    ("```python\nprint('你好')\n```", "```python\nprint(\"你好\")\n```"),
    ("# 标题\n\n- 第一项\n- 第二项\n\n1. 甲\n2. 乙\n", "# 标题\n- 第一项\n- 第二项\n"),
    ('{"name": "张三", "age": 30, "ok": true}', '{"name": "李四", "age": 30, "ok": false}'),
    ("$E = mc^2$，其中 $c \\approx 3\\times10^8$ m/s", "E=mc²，c≈3×10⁸ m/s"),
    ("What?! No way... Really?? Yes!!!", "What? No way. Really? Yes!"),
    ("？？！！。。", "？！。"),
    ("“”‘’", "“引号”"),
    ("a\x1cb\x1dc\x85d\u2028e", "a b c d e"),
    ("Tab\tseparated\tvalues\x0band\x0cfeeds", "Tab separated values and feeds"),
    ("繁體中文測試：我們來到臺灣大學圖書館", "繁体中文测试：我们来到台湾大学图书馆"),
    ("\ufffd\ufffd坏字节", "坏字节"),
    ("重复重复重复重复重复", "重复"),
    ("长文。" + "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。" * 12, "春眠不觉晓，处处闻啼鸟。" * 9 + "结束。"),
    ("Once upon a time, " * 40 + "the end.", "Once upon a time there was a fox. " * 20 + "The end."),
]


class Characters:
    """A tokenizer whose ids are code points, with the methods that ComputeSimilarity calls."""

    pad_token_id = 0

    def batch_decode(self, batch, skip_special_tokens):
        return ["".join(chr(i) for i in ids if i) for ids in batch]


def texts(dictionary):
    chance = random.Random(20)
    signs = list("+#&._%-,;:!?()[]@~ \n\t\r。，！？、：；“”‘’…—·《》")
    rare = [chr(c) for c in (*range(0x4E00, 0x9FD6, 97), 0x9FD5, 0x9FD6, 0x3400, 0x20000)]

    def piece():
        kind = chance.random()
        if kind < 0.55:
            return chance.choice(dictionary)
        if kind < 0.7:
            return chance.choice(rare)
        if kind < 0.8:
            return chance.choice(signs)
        if kind < 0.9:
            return "".join(
                chance.choice("abcXYZ0123456789.%+-_&#") for _ in range(chance.randint(1, 6))
            )
        return chance.choice(dictionary)[: chance.randint(1, 2)]

    made = ["".join(piece() for _ in range(chance.randint(1, 24))) for _ in range(400)]
    characters = [word for word in dictionary if len(word) == 1]
    made += [
        "".join(chance.choice(characters) for _ in range(chance.randint(2, 30)))
        for _ in range(200)
    ]
    return made + [text for pair in PAIRS for text in pair if len(text) < 200]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--packages", required=True)
    sys.path.insert(0, parser.parse_args().packages)
    import jieba
    import numpy as np
    from llamafactory.train.sft.metric import ComputeSimilarity
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
    from rouge_chinese import Rouge
    from transformers import EvalPrediction

    def write(name, rows):
        with open(os.path.join(HERE, name), "w", encoding="utf-8") as out:
            out.write("[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows) + "\n]\n")

    jieba.initialize()
    dictionary = [word for word, frequency in jieba.dt.FREQ.items() if frequency]
    write("words.json", [{"text": t, "words": list(jieba.cut(t))} for t in texts(dictionary)])

    rows = []
    for prediction, label in PAIRS:
        ids = [np.array([[ord(c) for c in text] or [0]]) for text in (prediction, label)]
        row = {"prediction": prediction, "label": label}
        words = [" ".join(jieba.cut(text)) for text in (prediction, label)]
        try:
            row["scores"] = ComputeSimilarity(tokenizer=Characters())(EvalPrediction(*ids))
        except ValueError as error:
            row["error"] = str(error)
        row["bleu"] = float(
            sentence_bleu(
                [list(label)],
                list(prediction),
                smoothing_function=SmoothingFunction().method3,
            )
        )
        if all(text.split() for text in words) and "error" not in row:
            found = Rouge().get_scores(*words)[0]
            row["rouge"] = {name: found[name]["f"] for name in ("rouge-1", "rouge-2", "rouge-l")}
        rows.append(row)
    write("pairs.json", rows)


main()
