"""`thalweg place` compares placements of graphs in files and scripts, draws them, and says what is wrong with them."""

import doctest
import inspect
import json
import xml.etree.ElementTree as ElementTree

import pytest

import thalweg as tf
from thalweg.cli.main import main
from thalweg.placement import comparison, options
from thalweg.runtime import measurements

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def towers():
    """A graph of two towers and a training step."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 64], name="x")
        ends = [tf.layers.dense(tf.layers.dense(x, 64, tf.nn.relu), 64) for _ in range(2)]
        loss = tf.reduce_mean(tf.square(ends[0] - ends[1]), name="loss")
        tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, name="train")
        yield graph


def lines(text):
    return {line.replace("*", " ").split()[0]: line for line in text.splitlines()[1:] if line[:1] in "* "}


def test_a_graph_def_is_placed_by_all_strategies(towers, tmp_path, capsys):
    (tmp_path / "graph.pb").write_bytes(towers.as_graph_def().SerializeToString())
    assert main(["place", str(tmp_path / "graph.pb"), "--fetch", "train", "--devices", "2"]) == 0
    found = lines(capsys.readouterr().out)
    assert list(found) == tf.placement.strategy_names()
    assert sum(line.startswith("*") for line in found.values()) == 1
    assert " 1.00 " in found["single"]


@pytest.mark.parametrize("as_text", [False, True])
def test_a_meta_graph_knows_its_training_step(towers, tmp_path, capsys, as_text):
    path = str(tmp_path / ("model.meta.txt" if as_text else "model.meta"))
    tf.train.export_meta_graph(path, as_text=as_text)
    assert main(["place", path, "--strategies", "single,heft"]) == 0
    assert list(lines(capsys.readouterr().out)) == ["single", "heft"]


def test_text_and_costs_and_a_machine(towers, tmp_path, capsys):
    tf.train.write_graph(towers, str(tmp_path), "graph.pbtxt")
    costs, machine = tmp_path / "costs.json", tmp_path / "machine.json"
    tf.placement.CostModel().save(str(costs))
    machine.write_text(json.dumps({"devices": [{"name": "CPU:0"}, {"name": "GPU:0", "speed": 50, "memory": "1G"}]}))
    arguments = ["--machine", str(machine), "--costs", str(costs), "--strategies", "heft"]
    assert main(["place", str(tmp_path / "graph.pbtxt"), "--fetch", "loss:0", *arguments]) == 0
    assert "heft" in capsys.readouterr().out


@pytest.mark.parametrize(
    "script",
    [
        "import thalweg as tf\ny = tf.matmul(tf.random_normal([64, 64]), tf.random_normal([64, 64]))\n",
        "import thalweg as tf\ndef build():\n    return tf.exp(tf.random_normal([64]))\n",
        "import thalweg as tf\ntf.reset_default_graph()\ny = tf.exp(tf.random_normal([64]))\n",
        "import thalweg as tf\ng = tf.Graph()\nwith g.as_default():\n    y = tf.exp(tf.random_normal([64]))\n",
        "import thalweg as tf\ndef build():\n    with tf.Graph().as_default() as g:\n"
        "        tf.exp(tf.random_normal([64]))\n    return g\n",
        "import sys, thalweg as tf\nassert len(sys.argv) == 1\ny = tf.exp(tf.random_normal([64]))\n",
    ],
)
def test_a_script_is_drawn(tmp_path, capsys, script):
    path, drawing = tmp_path / "model.py", tmp_path / "schedule.svg"
    path.write_text(script)
    assert main(["place", str(path), "--devices", "3", "--draw", str(drawing)]) == 0
    assert "schedule.svg" in capsys.readouterr().out
    root = ElementTree.parse(drawing).getroot()
    assert root.tag == SVG + "svg"
    texts = [element.text for element in root.iter(SVG + "text")]
    assert [text for text in texts if text and text.startswith("CPU:")] == ["CPU:0", "CPU:1", "CPU:2"]
    titles = [element.text for element in root.iter(SVG + "title")]
    assert any("RandomStandardNormal" in title for title in titles)
    assert any("critical" in rect.get("class", "") for rect in root.iter(SVG + "rect"))


def test_the_plan_of_the_fastest_is_written(tmp_path, capsys):
    path, plan = tmp_path / "model.py", tmp_path / "plan.txt"
    path.write_text(
        "import thalweg as tf\n"
        "x = tf.placeholder(tf.float32, [256, 256], name='x')\n"
        "towers = [tf.matmul(tf.matmul(x, x), x, name=f'tower{i}') for i in range(2)]\n"
        "total = tf.add(*towers, name='total')\n"
    )
    assert main(["place", str(path), "--fetch", "total", "--strategies", "heft", "--plan", str(plan)]) == 0
    assert "plan.txt" in capsys.readouterr().out
    text = plan.read_text()
    for found in (
        "device:CPU:0",
        "device:CPU:1",
        'op: "_Send"',
        'op: "_Recv"',
        'name: "total"',
        "priority {",
        "model.py:3",
    ):
        assert found in text, found


def test_names_in_a_drawing_are_escaped(tmp_path):
    from thalweg.placement.gantt import draw

    with tf.Graph().as_default():
        found = tf.placement.compare(tf.random_normal([4]) + 1.0, 2, names=["single"])[0]
    node = found.tasks.nodes[0]
    found.tasks.nodes[0] = node._replace(name='a<b>&"c"')
    assert ElementTree.fromstring(draw(found.tasks, found.schedule, "<&>")) is not None


def test_many_short_nodes_are_drawn_as_few_bars():
    from thalweg.placement.gantt import draw

    with tf.Graph().as_default():
        x = tf.random_normal([2])
        for _ in range(3000):
            x = tf.sin(x)
        found = tf.placement.compare(x, 1, names=["single"])[0]
    text = draw(found.tasks, found.schedule)
    assert text.count("<rect") < 2500
    assert "short nodes" in text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("graph.pb", b"\xff\xff\xff", "no GraphDef"),
        ("graph.pbtxt", b"node {", "no GraphDef"),
        ("graph.pbtxt", b"\xff\xfe", "no GraphDef"),
        ("graph.pb", b"", "holds no operations"),
        ("graph.pbtxt", b'node { name: "a" op: "NoSuchOp" }', "NoSuchOp"),
        ("graph.pbtxt", b'node { name: "a" op: "Neg" input: "b" attr { key: "T" value { type: DT_FLOAT } } } '
                        b'node { name: "b" op: "Neg" input: "a" attr { key: "T" value { type: DT_FLOAT } } }', "cycl"),
        ("model.meta", b"garbage", "MetaGraphDef"),
        ("model.py", b"import sys\nsys.exit(3)\n", "exit code 3"),
        ("model.py", b"x = 1\n", "holds no operations"),
        ("model.py", b"import thalweg as tf\ntf.no_op()\n", "could be fetched"),
    ],
)  # fmt: skip
def test_a_file_without_a_usable_graph_is_one_line(tmp_path, capsys, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert main(["place", str(tmp_path / name)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("thalweg place: ")
    assert words in error


def test_a_script_that_fails_shows_where_and_leaves_the_default_graph_alone(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text("import thalweg as tf\ntf.zeros([2])\ndef f():\n    raise ValueError('no such size')\nf()\n")
    with tf.Graph().as_default() as graph:
        assert main(["place", str(path)]) == 1
        assert tf.get_default_graph() is graph
    assert not graph.get_operations()
    error = capsys.readouterr().err
    assert "line 4, in f" in error
    assert error.endswith("ValueError: no such size\n")
    assert "runpy" not in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--devices", "0"], "at least one device"),
        (["--devices", "2", "--machine", "x.json"], "one of them"),
        (["--machine", "missing.json"], "missing.json"),
        (["--costs", "missing.json"], "missing.json"),
        (["--strategies", "magic"], "magic"),
        (["--fetch", "nothing"], "nothing"),
        (["--draw", "/nowhere/at/all.svg"], "/nowhere"),
    ],
)
def test_impossible_arguments_are_one_line(tmp_path, capsys, arguments, words):
    path = tmp_path / "model.py"
    path.write_text("import thalweg as tf\ny = tf.exp(tf.random_normal([4]))\n")
    assert main(["place", str(path), *arguments]) == 1
    assert words in capsys.readouterr().err


def test_a_device_that_the_machine_lacks_is_an_error_unless_soft():
    with tf.Graph().as_default():
        with tf.device("/gpu:3"):
            y = tf.exp(tf.random_normal([4]))
        assert tf.placement.compare(y, 2, names=["single"])[0].devices["Exp"].endswith("CPU:0")
        with pytest.raises(tf.errors.InvalidArgumentError, match="GPU:3"):
            tf.placement.compare(y, 2, soft=False)


def test_a_fetch_must_be_there():
    with tf.Graph().as_default():
        tf.no_op()
        with pytest.raises(ValueError, match="nothing to place"):
            tf.placement.compare([], 2)
        with pytest.raises(ValueError, match="missing"):
            tf.placement.compare("missing:0", 2)


@pytest.mark.parametrize(
    "value", [comparison.compare, measurements.cost_model, comparison.strategy_names, options.configure]
)
def test_the_example_of_a_docstring_runs(value):
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(value.__doc__), {"tf": tf}, value.__name__, None, 0)
    with tf.Graph().as_default():
        assert doctest.DocTestRunner().run(test).failed == 0


def test_a_drawing_has_to_be_svg(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text("import thalweg as tf\ny = tf.exp(tf.random_normal([64]))\n")
    assert main(["place", str(path), "--draw", str(tmp_path / "a.png")]) == 1
    assert "a.png" in capsys.readouterr().err
    assert not (tmp_path / "a.png").exists()


def test_graph_and_meta_graph_are_placed_alike_and_say_what_is_fetched(towers, tmp_path, capsys):
    tf.train.export_meta_graph(str(tmp_path / "model.meta"))
    tf.train.write_graph(towers, str(tmp_path), "graph.pbtxt")
    said = []
    for name in ("model.meta", "graph.pbtxt"):
        assert main(["place", str(tmp_path / name), "--strategies", "single"]) == 0
        said.append(capsys.readouterr().out.splitlines()[-1])
    assert said[0] == said[1]
    assert "fetches train (choose others with --fetch)" in said[0]
    assert "estimates" in said[0]


def test_a_program_with_a_main_function_is_placed_at_its_first_step(tmp_path, capsys):
    path = tmp_path / "model.py"
    path.write_text(
        "import sys\nimport thalweg as tf\n"
        "def main():\n"
        "    y = tf.exp(tf.random_normal([int(sys.argv[1])]), name='result')\n"
        "    with tf.train.MonitoredSession() as session:\n"
        "        try:\n            session.run(y)\n        except Exception:\n            print('swallowed')\n"
        "        print('never')\n"
        "if __name__ == '__main__':\n    main()\n"
    )
    assert main(["place", str(path), "--script-arguments", "64", "--strategies", "single"]) == 0
    out = capsys.readouterr().out
    assert "fetches result" in out
    assert "never" not in out
    assert "swallowed" not in out
    with tf.Session() as session:  # Sessions run again.
        assert session.run(tf.constant(1)) == 1


def test_a_fused_product_has_its_own_colour_and_not_that_of_its_activation():
    from thalweg.placement.gantt import draw

    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [256, 256], name="x")
        y = tf.nn.relu(tf.matmul(x, x, name="product"), name="activation")
        found = tf.placement.compare(y, 1, names=["single"])[0]
    drawing = draw(found.tasks, found.schedule)
    assert "product + activation\nMatMul + Relu (fused)" in drawing
    legend = [e.text for e in ElementTree.fromstring(drawing).iter(SVG + "text") if e.get("class") == "small"]
    assert "MatMul" in legend
    assert "Relu" not in legend
