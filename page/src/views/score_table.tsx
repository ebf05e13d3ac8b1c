// The scores of the best nodes, by plugin.
import { count } from "../format";

export function ScoreTable({
  nodes,
  totals,
  rows,
  winner,
}: {
  nodes: string[];
  totals: number[];
  rows: [plugin: string, scores: number[]][];
  winner: string;
}) {
  const heading = (node: string) => (node === winner ? `${node} ✓` : node);
  return (
    <div class="scroll">
      <table class="scores">
        <caption class="unseen">Scores by plugin and node</caption>
        <thead>
          <tr>
            <th scope="col">Plugin</th>
            {nodes.map((node) => (
              <th scope="col" key={node} class="number">
                {heading(node)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(([plugin, scores]) => (
            <tr key={plugin}>
              <th scope="row">{plugin}</th>
              {nodes.map((node, index) => (
                <td class="number" key={node}>
                  {count(scores[index] ?? 0)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">total</th>
            {nodes.map((node, index) => (
              <td class="number" key={node}>
                {count(totals[index] ?? 0)}
              </td>
            ))}
          </tr>
        </tfoot>
      </table>
    </div>
  );
}
